"""The defects, a file for each: all that is known of it, and the code that shows it, both as it is and mended.

A case imports torch and NumPy, and the runtime inside its functions, and nothing of this package, so that
`repro` can run it beside a copy of itself anywhere. `catalogue` says what a case has to have.
"""
