"""A notebook over a grid of parameters, each combination executed on some worker of a Dask cluster."""
