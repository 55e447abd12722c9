"""Which parts of the package run in Sphinx, and so without torch; all others run in the cells."""

SITE_PACKAGES = ("citations", "comparisons", "pins", "prose", "warm")
