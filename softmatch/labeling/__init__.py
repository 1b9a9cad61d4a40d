"""The labelling page: log of labels, queue of suggestions, server, static files."""
