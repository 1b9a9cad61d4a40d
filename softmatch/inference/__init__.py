"""What comes after training: predictions, pseudo-labels to review, samples to label next, exported models."""
