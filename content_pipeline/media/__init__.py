"""Reading, understanding and cutting recordings. Knows files and sound; knows no Dagster and no manifest."""
