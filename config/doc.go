// Package config answers one question: what does the HCL below --config say?
//
// [Load] reads a file or a folder and gives either one checked [Config] or a list of mistakes, each with
// its place and its remedy. What callers may rely on:
//
//   - All or nothing: a Config exists only when not one error was found, and after Load nobody checks again.
//   - Every mistake of every file comes in one run. A file with a syntax error does not hide the mistakes
//     of the others.
//   - Nothing is accepted and silently ignored: what is unknown, and what is known but has no effect yet,
//     is an error.
//   - Order is kept: teams, upstreams and rules stand in the order of the files and of their lines. Folders
//     are read recursively, the names in each in the order of their bytes.
//   - A Config never changes, so it may be shared between goroutines.
//   - Load reads the configuration, the files it names and the environment; it never touches the network.
//
// # Sensitive values
//
// What comes from env and file is sensitive, and so is whatever is computed from it. Where may it go?
//
//	headers, env, sha256, token_sha256,         kept as Secret, Key or a hash: never printed
//	client_secret, cursor_keys
//	listen, path, public_url, instructions,     yes, since deployments set them from outside; these
//	allowed_hosts, allowed_origins, state_dir,  are public by nature and printed by the Config
//	trusted_proxies, server_name, issuer,
//	jwks_url, audience
//	url, urls, command                          yes; [Upstream.Address] is what may be shown of them
//	*ca_file, cert_file, key_file               yes; what is in the files is kept as Secret
//	everything else                             an error: it would be shown in logs
//
// No diagnostic contains a sensitive value, and none shows the source text of headers, env, sha256,
// token_sha256, client_secret and cursor_keys.
//
// The files of a tls block are found like those of file(): relative to the folder of the file that names them, and
// only where the team's allow block grants them.
//
// # What an allow block trusts
//
// A granted command is trusted to run with the arguments and the environment that the team gives it. What it does
// with its arguments is not looked at: who may run npx or a shell may run everything. So that a harmless command
// cannot be made another one, a team's env may not set the variables that are known to decide which code runs, like
// PATH, LD_PRELOAD and NODE_OPTIONS; this holds where any allow block exists. A program that takes code from
// variables of its own is better granted as a script that leaves no choice.
//
// # Conditions
//
// A when expression, see [Condition], is evaluated for each prompt and each audience, so it takes time in proportion to
// its length and to what it reads: there is no loop in a loop, no arithmetic, and no function that makes much out of
// little.
//
// # A team's file, annotated
//
//	team "payments" {
//	  # Members see all prompts of the team's upstreams. Others see nothing of them.
//	  members = ["group:payments", "user:alice@example.com"]
//
//	  # An MCP server that is reached by HTTP. Its prompt "review_pr" is exposed as "billing.review_pr".
//	  upstream "billing" {
//	    url     = "https://billing.internal/mcp"
//	    headers = { Authorization = "Bearer ${env("PAYMENTS_TOKEN")}" }
//	    timeout = "20s"
//	    rate    = 50 # calls per second
//	    retry { attempts = 2 }
//	    breaker {
//	      failures = 3
//	      cooldown = "10s"
//	    }
//	  }
//
//	  # Replicas of one server. When all of them are down, its prompts disappear after a while.
//	  upstream "ledger" {
//	    urls      = ["https://a.ledger.internal/mcp", "https://b.ledger.internal/mcp"]
//	    when_down = "hide" # the default is "keep"
//	    grace     = "10m"
//	    tls { server_name = "ledger.internal" } # also ca_file, and cert_file with key_file
//	  }
//
//	  # An MCP server that is a child process. It inherits little: what it needs stands in env.
//	  upstream "notes" {
//	    command = ["npx", "-y", "@modelcontextprotocol/server-everything"]
//	    env     = { LOG_LEVEL = "warn" }
//	    prefix  = "wiki" # instead of its label
//	  }
//
//	  # Adds an audience. Patterns are over exposed names.
//	  expose "reviews for everyone" {
//	    prompts = ["billing.review_*"]
//	    to      = ["*"]
//	    when    = length(prompt.arguments) <= 5 # optional: over prompt and principal
//	  }
//
//	  # Changes what clients see of one prompt. Fixed arguments disappear and are sent with every get; what has a
//	  # default is no longer required.
//	  prompt "billing.review_invoice" {
//	    name      = "invoice"
//	    title     = "Review an invoice"
//	    arguments = { currency = "EUR" }
//	    defaults  = { language = "en" }
//	  }
//
//	  # Removes from everybody, members too.
//	  hide "half-finished" { prompts = ["wiki.wip_*"] }
//	}
package config
