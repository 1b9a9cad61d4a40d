"""The paper's experiments as data, and what trains them: a sheet of runs, the store that keeps them, sweeps and executors."""
