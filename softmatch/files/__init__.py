"""Files: atomic writes, locks, checked tensor files, untrusted JSON and YAML, paths, the cache folder."""
