"""The result: integers that add, metrics over scopes, and the forms that programs read."""
