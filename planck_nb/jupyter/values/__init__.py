"""Notebook values in words for a model: `describe_value` and `kind_of`.

They are pure, load no library, and guarantee for any value:

- They return bounded text in bounded time, about two seconds at the very worst, and raise only interrupts. A `repr`
  which raises, writes a gigabyte, or takes a minute is called in a thread, stopped, and replaced by the class name.
- Lazy objects are neither computed nor fetched nor used up: generators and other iterators, awaitables, lazy frames,
  Dask and Spark collections, database relations and cursors are described by their class only, inside other objects,
  too.
- The value's class is determined by `type`, whatever the value claims to be. Methods for built-in containers are those
  in the built-in class, so a subclass cannot interfere.
- Text in a dictionary, an attribute or a column with a secret's name, such as `password`, is not shown.
- Libraries are never imported. Tables and arrays from pandas, polars, pyarrow, NumPy and PyTorch are recognised by
  their class names, and shown with shape, types, missing values and first rows.
- The text is without memory addresses, so it is the same in each execution.

The caller decides whether the variable's own name may be read, and which secrets have to be replaced in the text: see
`planck_nb.base.secrets.is_secret_name` and `redact`.
"""

from planck_nb.jupyter.values.description import describe_value
from planck_nb.jupyter.values.kind_and_size import kind_of

__all__ = ["describe_value", "kind_of"]
