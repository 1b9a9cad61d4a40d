"""SoftMatch: train a classifier from a handful of labels and a lot of unlabelled data."""
