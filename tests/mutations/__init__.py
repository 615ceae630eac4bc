"""The suite can fail: with a guard of the guarantee taken out of the code, a test turns red."""
