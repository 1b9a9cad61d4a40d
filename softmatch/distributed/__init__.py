"""Several processes: the process group, gathering, batch-norm statistics, devices and launching."""
