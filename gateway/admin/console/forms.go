package console

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"

	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"
)

// maxForm bounds the body of a form, in bytes.
const maxForm = 64 << 10

// askForToken shows the page that asks for the token.
func (c *console) askForToken(w http.ResponseWriter, r *http.Request) {
	next, code := localPath(r.FormValue("next")), r.FormValue("code")
	// Do not ask operators, except to redeem the code of a link.
	if c.operators.HasSession(r) || code == "" && c.operators.Include(r) {
		redirect(w, r, next)
		return
	}
	p, content := c.page(r), entrance(c.operators.HaveToken(), next, nil)
	if code != "" && !c.operators.HaveToken() {
		content = linkEntrance(code)
	}
	p.title = "Sign in"
	c.write(w, http.StatusOK, p, content)
}

// linkEntrance posts the code of a link back. Only the post signs in: a browser may load the link
// in advance, and a program may look where the link leads.
func linkEntrance(code string) Node {
	return door(Form(ID("link"), Action("/sign-in"), Method("post"), hidden("code", code),
		Raw(`<p>This link opens the console once.</p><button class="primary">Open the console</button>`)))
}

// door is a page for callers who have not signed in.
func door(content ...Node) Node {
	return Section(Class("door"), Aria("labelledby", "title"), H1(ID("title"), Text("Sign in")),
		Group(content))
}

// entrance asks for the token, and leads to the page next. problem explains a failed attempt.
func entrance(haveToken bool, next string, problem Node) Node {
	return door(If(problem != nil, P(Class("card bad"), Role("alert"), problem)),
		If(!haveToken, Raw(`<p>This is the operators' console. Without an admin token, it opens on the gateway's own machine only. <code>promptweir token `+
			`--admin</code> makes a token, and the block with its hash.</p>`)),
		If(haveToken, Group{
			Raw(`<p class="quiet">This is the operators' console. Sign in with the admin token, whose ` +
				`hash is <code>admin.token_sha256</code> in the configuration. You stay signed in for ` +
				`12 hours.</p>`),
			Form(Action("/sign-in"), Method("post"), hidden("next", next),
				// Password managers save a token only beside a user name.
				Raw(`<input class="unseen" type="text" name="username" value="operator" `+
					`autocomplete="username" tabindex="-1" aria-hidden="true" readonly>`),
				Label(For("token"), Text("Admin token")),
				Input(ID("token"), Name("token"), Type("password"), AutoComplete("current-password"),
					Required(), AutoFocus(), If(problem != nil, Aria("invalid", "true"))),
				Button(Class("primary"), Text("Sign in"))),
		}))
}

// signIn begins a session, or asks for the token again.
func (c *console) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	next := localPath(r.PostFormValue("next"))
	token, code := strings.TrimSpace(r.PostFormValue("token")), r.PostFormValue("code")
	if ok, wait := c.operators.SignIn(w, r, token, code); !ok {
		status, problem := http.StatusForbidden, Text("That is not the admin token.")
		if code != "" {
			problem = Group{
				Text("This link was used or has expired, or is for another machine. promptweir console " +
					"prints a new one."),
				If(c.operators.Include(r), Raw(` To look only, <a href="/">open the console</a> without it.`)),
			}
		}
		if wait > 0 {
			status = http.StatusTooManyRequests
			seconds := strconv.Itoa(int(math.Ceil(wait.Seconds())))
			w.Header().Set("Retry-After", seconds)
			problem = Text("Too many tokens came from this address, so this one was not compared. " +
				"Try again in " + seconds + " s.")
		}
		p := c.page(r)
		p.title = "Sign in"
		c.write(w, status, p, entrance(c.operators.HaveToken(), next, problem))
		return
	}
	if c.operators.Exposed(r) {
		c.opts.Logger.WarnContext(r.Context(),
			"operator signed in over an unencrypted connection: put a proxy with TLS in front of the "+
				"admin listener",
			slog.String("client", c.operators.Client(r)))
	}
	redirect(w, r, next)
}

// signOut ends the session.
func (c *console) signOut(w http.ResponseWriter, r *http.Request) {
	c.operators.SignOut(w, r)
	redirect(w, r, "/sign-in")
}

func redirect(w http.ResponseWriter, r *http.Request, to string) {
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// localPath returns a path of the console. It returns "/" for anything that might lead to another
// origin.
func localPath(path string) string {
	// Browsers treat a backslash as a slash, and drop tabs and line ends.
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") ||
		strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}

// acts carries out an operator's action, and shows the page with the button again, or the error.
// act may return the fragment of the page to scroll to.
func (c *console) acts(
	act func(ctx context.Context, r *http.Request) (fragment string, err error),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		next := localPath(r.PostFormValue("next"))
		// The action goes on if the browser leaves.
		fragment, err := act(context.WithoutCancel(r.Context()), r)
		if err != nil {
			p := c.page(r)
			p.uri = next
			c.writeProblem(w, http.StatusUnprocessableEntity, p, "This failed", err)
			return
		}
		redirect(w, r, next+fragment)
	}
}

// reload loads the configuration again. If it is refused, the page shows why and scrolls there.
func (c *console) reload(ctx context.Context, r *http.Request) (fragment string, err error) {
	err = c.opts.Reload(ctx, c.operators.Client(r))
	if err != nil && c.view.Configuration().Refused != nil {
		return "#configuration", nil
	}
	return "", err
}

// connect makes the next attempt to connect to an upstream that is down.
func (c *console) connect(_ context.Context, r *http.Request) (fragment string, err error) {
	return "", c.opts.Connect(c.operators.Client(r), r.PostFormValue("upstream"))
}
