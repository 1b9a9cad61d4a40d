"""The paper's experiments as data, and what runs them: a sheet of runs, the store that keeps them, places that execute them."""
