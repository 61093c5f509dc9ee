"""Pages of a comparison: one HTML file each, with shared templates, tables, charts and styles."""
