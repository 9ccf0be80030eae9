package main

func enoughFiles(int) error { return nil }
