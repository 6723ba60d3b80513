"""Describes the values of a notebook in words for a model: `describe_value` and `kind_of`. Pure; loads no library.

What both guarantee, whatever the value is:

- They return text of limited size in limited time, about two seconds at the very worst, and raise nothing but an
  interrupt. A `repr` that raises, writes a gigabyte of text, or takes a minute is called in a thread, stopped, and
  replaced by the name of the class.
- Nothing lazy is computed, fetched or used up: generators and other iterators, awaitables, lazy frames, Dask and Spark
  collections, relations and cursors of databases are described by their class only, inside of other objects, too.
- The value's class is found by `type`, never by what the value claims to be. Methods of built-in containers are those
  of the built-in class, so that a subclass cannot interfere.
- Text in a dictionary, an attribute or a column whose name is that of a secret, such as `password`, is not shown.
- No library is imported. Tables and arrays of pandas, polars, pyarrow, NumPy and PyTorch are recognised by the names of
  their classes, and shown with shape, types, missing values and first rows.
- The text contains no memory addresses, so that it is the same in each execution.

Whether the name of the variable itself may be read, and which secrets of the process have to be replaced in the text,
is the caller's to decide: see `planck_nb.base.secrets.is_secret_name` and `redact`.
"""

from planck_nb.jupyter.values.description import describe_value
from planck_nb.jupyter.values.kind_and_size import kind_of

__all__ = ["describe_value", "kind_of"]
