gateway { listen = "localhost:9000" }
admin { listen = "[::]:9001" }
team "a" {
  upstream "u01" { url = "http://169.254.169.254/latest" } # ERROR: Link-local and cloud metadata
  upstream "u02" { url = "http://[fe80::1]/" }             # ERROR: Link-local
  upstream "u03" { url = "http://[fe80::1%25eth0]/" }      # ERROR: Invalid upstream URL; "http://[fe80::1%25eth0]/" has a zone after its address
  upstream "u31" { url = "http://168.63.129.16/" }         # ERROR: Link-local and cloud metadata
  upstream "u32" { url = "http://192.0.0.192/" }           # ERROR: Link-local and cloud metadata
  upstream "u33" { url = "http://[64:ff9b::a9fe:a9fe]/" }  # ERROR: Link-local and cloud metadata
  upstream "u34" { url = "http://[2002:a9fe:a9fe::1]/" }   # ERROR: Link-local and cloud metadata
  upstream "u35" { url = "http://[64:ff9b::10.0.0.1]/" }
  upstream "u04" { url = "http://[::ffff:169.254.1.1]/" }  # ERROR: Link-local
  upstream "u05" { url = "http://Metadata.Google.Internal./" } # ERROR: Link-local
  upstream "u06" { url = "http://127.0.0.1:9000/mcp" }     # ERROR: This is the gateway's own gateway.listen
  upstream "u07" { url = "http://[::1]:9000/mcp" }         # ERROR: gateway.listen
  upstream "u08" { url = "http://0.0.0.0:9000/mcp" }       # ERROR: gateway.listen
  upstream "u09" { url = "http://LOCALHOST:9001/mcp" }     # ERROR: admin.listen
  upstream "u10" { url = "http://[::ffff:127.0.0.1]:9001/" } # ERROR: admin.listen
  upstream "u11" { url = "http://localhost:9002/mcp" }
  upstream "u14" { url = "http://[::1%25lo]:9000/mcp" }    # ERROR: has a zone
  upstream "u15" { url = "http://[::ffff:127.0.0.1%25lo]:9001/" } # ERROR: has a zone
  upstream "u12" { url = "http://10.0.0.1:9000/mcp" }
}
