"""What a prompt carries besides its words: values, pictures, resources of sidecars, and the type of its answer."""
