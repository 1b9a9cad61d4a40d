"""Training: job, setup, loop, schedule, averaged weights, checkpoints, evaluation."""
