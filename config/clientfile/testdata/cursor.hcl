# Made by promptweir import from cursor.json.
# It needs these variables in the gateway's environment:
# - LINEAR_API_KEY: written out in the client's file
# - LINEAR_TEAM
# - DATABASE_PASSWORD: written out in the client's file
# - DATABASE_PASSWORD_2: written out in the client's file
# - DATABASE_PASSWORD_3: written out in the client's file
# - HOME
# - API_KEY
# - PORT: written out in the client's file
# - DEBUG: written out in the client's file

team "mine" {
  upstream "figma" {
    url = "http://127.0.0.1:3845/sse"
  }

  # auth: in the client, a person signs in. The gateway gets tokens through an oauth block (client credentials), or sends one in headers.
  upstream "linear" {
    url     = "https://mcp.linear.app/mcp?workspace=shop&api_key=${env("LINEAR_API_KEY")}"
    headers = { X-Team = env("LINEAR_TEAM") }
  }

  upstream "database" {
    command = ["mcp-database", "postgresql://app:${env("DATABASE_PASSWORD")}@db.example.com/shop", "Server=db;User Id=app;Password=${env("DATABASE_PASSWORD_2")};Encrypt=true", "-p${env("DATABASE_PASSWORD_3")}", "-p8080:80", "-port"]
  }

  # Not imported: PROXY in env, which is not a string.
  # The client reads variables from ${workspaceFolder}/.env: copy those the server needs into env.
  # ${workspaceFolder} is the client's own folder. Here it is the gateway's working directory, unless WORKSPACE_FOLDER is set.
  upstream "local" {
    command = ["python", "${env("WORKSPACE_FOLDER", ".")}/tools/server.py", "--home", "${env("HOME")}/.data"]
    env = {
      API_KEY = env("API_KEY")
      PORT    = env("PORT")
      DEBUG   = env("DEBUG")
    }
  }
}
