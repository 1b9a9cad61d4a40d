"""Use of trained models: predictions, pseudo-labels to review, samples to label next, export."""
