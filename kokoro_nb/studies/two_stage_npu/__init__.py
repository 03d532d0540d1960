"""06: two exported stages of static shape, and whether an NPU takes them."""
