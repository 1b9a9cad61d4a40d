"""Sets larger than memory: remote files, tar shards, their index, and an order of their samples by arithmetic."""
