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

// askForToken serves the sign-in page, or the page of a link with a code.
func (c *console) askForToken(w http.ResponseWriter, r *http.Request) {
	next, code := localPath(r.FormValue("next")), r.FormValue("code")
	// Operators need not sign in. But an operator without a session may open a link to get one.
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

// linkEntrance is the page of a link. Its button posts the code. The GET must not use up the code:
// browsers and other programs may load the link in advance.
func linkEntrance(code string) Node {
	return door(Form(ID("link"), Action("/sign-in"), Method("post"), hidden("code", code),
		Raw(`<p>This link opens the console once.</p><button class="primary">Open the console</button>`)))
}

// door is the frame of the pages for callers who have not signed in.
func door(content ...Node) Node {
	return Section(Class("door"), Aria("labelledby", "title"), H1(ID("title"), Text("Sign in")), Group(content))
}

// entrance is the sign-in page. After signing in, the browser goes to next. problem explains a failed
// attempt. It is nil before the first attempt.
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

// signIn handles the sign-in form: it begins a session, or shows the sign-in page with the problem.
func (c *console) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	next := localPath(r.PostFormValue("next"))
	token, code := strings.TrimSpace(r.PostFormValue("token")), r.PostFormValue("code")
	if ok, wait := c.operators.SignIn(w, r, token, code); !ok {
		status, problem := http.StatusForbidden, Text("That is not the admin token.")
		if code != "" {
			problem = Group{
				Text("This link was used or has expired, or is for another machine. promptweir console prints a new one."),
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
			"operator signed in over an unencrypted connection: put a proxy with TLS in front of the admin listener",
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

// localPath returns the path, or "/" if the path could lead a browser to another origin.
func localPath(path string) string {
	// Browsers treat a backslash as a slash, and ignore tabs and line ends.
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") ||
		strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}

// acts returns a handler that runs an operator's action. Then it redirects to the page of the button,
// or shows the error. act may return a fragment, to which the page scrolls.
func (c *console) acts(act func(ctx context.Context, r *http.Request) (fragment string, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		next := localPath(r.PostFormValue("next"))
		// The action continues if the browser disconnects.
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

// reload loads the configuration again. If the configuration is refused, it returns no error: the page
// shows the errors at the fragment.
func (c *console) reload(ctx context.Context, r *http.Request) (fragment string, err error) {
	err = c.opts.Reload(ctx, c.operators.Client(r))
	if err != nil && c.view.Configuration().Refused != nil {
		return "#configuration", nil
	}
	return "", err
}

// connect makes an upstream that is down connect now.
func (c *console) connect(_ context.Context, r *http.Request) (fragment string, err error) {
	return "", c.opts.Connect(c.operators.Client(r), r.PostFormValue("upstream"))
}
