"""Cost of a setting on GPUs that need not be here: steps, hours, memory and files (`softmatch plan`)."""
