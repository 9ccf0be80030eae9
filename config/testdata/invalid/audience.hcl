gateway {
  public_url = "https://prompts.example.com"
  nonsense   = true # ERROR: Unknown attribute
}
auth {
  jwt "host" {
    issuer   = "https://idp.example.com"
    audience = "https://prompts.example.com" # WARNING: Audience is not the endpoint; Clients request tokens for https://prompts.example.com/mcp
    as       = "host"
  }
  jwt "slash" {
    issuer   = "https://idp.example.com/slash"
    audience = "https://prompts.example.com/mcp/" # WARNING: Audience is not the endpoint; Clients request tokens for https://prompts.example.com/mcp
    as       = "slash"
  }
  jwt "endpoint" {
    issuer   = "https://idp.example.com/endpoint"
    audience = "https://prompts.example.com/mcp"
    as       = "endpoint"
  }
  jwt "sse" {
    issuer   = "https://idp.example.com/sse"
    audience = "https://prompts.example.com/sse"
    as       = "sse"
  }
  jwt "name" {
    issuer   = "https://idp.example.com/name"
    audience = "promptweir"
    as       = "name"
  }
  jwt "other host" {
    issuer   = "https://idp.example.com/other"
    audience = "https://api.example.com"
    as       = "other"
  }
}
