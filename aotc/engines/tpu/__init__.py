"""TPUs through libtpu, on machines that have none."""
