"""DuckDB: the files that are made from journals, and the queries over them."""
