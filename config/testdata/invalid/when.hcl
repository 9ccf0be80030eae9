hide "x" {
  prompts = ["*"]
  when    = prompts.name == "x"          # ERROR: Unknown variable; The only variables in when are prompt and principal.
}
team "a" {
  upstream "u" { url = "https://u.example.com" }
  hide "1" {
    prompts = ["u.*"]
    when    = prompt.nme == "x"          # ERROR: There is no "nme". Did you mean "name"?
  }
  expose "2" {
    prompts = ["u.*"]
    to      = ["*"]
    when    = principal.claim.tier == 1  # ERROR: Unsupported attribute
  }
  expose "3" {
    prompts = ["u.*"]
    to      = ["*"]
    when    = lenght(prompt.arguments) < 5 # ERROR: Call to unknown function; There is no function "lenght" in when. Did you mean "length"?
  }
  expose "4" {
    prompts = ["u.*"]
    to      = ["*"]
    when    = size(prompt.arguments) < 5 || env("SECRET") == "" || file("x") == "" # ERROR: There is no function "size" in when; use one of: can, chomp # ERROR: Not in when; A condition sees prompt and principal only; env # ERROR: Not in when; A condition sees prompt and principal only; file
  }
  expose "5" {
    prompts = ["u.*"]
    to      = ["*"]
    when    = prompt.title               # a title may be "true"
  }
  expose "6" {
    prompts = ["u.*"]
    to      = ["*"]
    when    = principal.groups           # ERROR: Invalid when; when must be true or false: the result is neither true nor false; write a comparison
  }
  expose "7" {
    prompts = ["u.*"]
    to      = ["*"]
    when    = "perhaps"                  # ERROR: Invalid when
  }
  expose "8" {
    prompts = ["u.*"]
    to      = ["*"]
    when    = null                       # ERROR: the result is null
  }
  expose "9" {
    prompts = ["u.*"]
    to      = ["*"]
    when    = length(prompt.name, 1) == 1 # ERROR: Too many function arguments
  }
  expose "11" {
    prompts = ["u.*"]
    to      = ["*"]
    when    = length(prompt.arguments) + 1 < 5 || prompt.title == "" # ERROR: No arithmetic here
  }
  expose "loop" {
    prompts = ["u.*"]
    to      = ["*"]
    when    = length([for a in prompt.arguments : a.name]) == 0 # ERROR: No loops here; There is no for; write the values out, or LIST[*].NAME
  }
  expose "12" {
    prompts = ["u.*"]
    to      = ["*"]
    when    = replace(prompt.name, "a", "b") == "b" # ERROR: Not in when; replace is not available, because its result can have any size
  }
  expose "13" {
    prompts = ["u.*"]
    to      = ["*"]
    when {                               # ERROR: Unexpected block; when is an attribute
    }
  }
  expose "pattern" {
    prompts = ["u.*"]
    to      = ["*"]
    when    = can(regex(".{0,999}b.{0,999}b.{0,999}b.{0,999}b.{0,999}b.{0,999}c", prompt.description)) || can(regex("(", prompt.name)) # ERROR: Invalid pattern; ".{0,999}b.{0,999}b.{0,999}b.{0,999}b.{0,999}b.{0,999}c" compiles to more than 10000 instructions # ERROR: "(" is not a regular expression
  }
  expose "index" {
    prompts = ["u.*"]
    to      = ["*"]
    when    = contains(prompt.arguments[*][prompt.title], "x") || -prompt.title == 1 || length(prompt.arguments[*].name) > -1 # ERROR: No index here; Only attribute names may follow [*] # ERROR: No arithmetic here
  }
}
