"""The life of a run: loop, schedule, averaged weights, checkpoints."""
