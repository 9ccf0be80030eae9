package config

import "github.com/promptweir/promptweir/config/internal/hclread"

// Suggest ends a sentence about a wrong name, with a question for the nearest of the known names if one is near, else with a
// period.
func Suggest(name string, known []string) string { return hclread.Suggest(name, known) }
