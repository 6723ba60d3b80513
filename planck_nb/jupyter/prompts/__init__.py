"""What a prompt carries besides its words: values, images, resources of sidecars, and the type of its answer."""
