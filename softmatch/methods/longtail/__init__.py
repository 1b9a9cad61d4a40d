"""Methods for data whose classes differ much in size."""
