"""What a setting would cost, on GPUs that need not be here: steps, arithmetic, hours, memory, traffic, files (`softmatch plan`).

Everything that can be counted is counted: the network on torch's meta device, the passes of a method by running it on a network
that only counts, a method's state by building it without its memory. What cannot be counted, speed above all, are constants
that say where they come from, and ranges where they are estimates.
"""
