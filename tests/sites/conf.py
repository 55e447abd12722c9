"""Sphinx settings of the tiny sites; a test copies them beside the site's docs folder."""

project = "a tiny site"
extensions = ["myst_nb", "fsdp_demo.pins"]
nb_render_plugin = "pins"
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_merge_streams = True
myst_enable_extensions = ["colon_fence"]
pins_required = ["lessons/*"]
