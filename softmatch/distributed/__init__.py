"""Several processes: the world, what they exchange, batch-norm statistics, devices, and how they are started."""
