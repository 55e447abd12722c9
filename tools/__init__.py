"""What the sessions in noxfile.py and the settings in conf.py stand on; not part of the package."""
