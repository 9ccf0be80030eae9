// What a person does in the browser that a client opens, at the development pages of oidc-provider.

/** Fills in the forms that come, until the provider redirects to the client, and returns that URL. */
export async function signIn(start, user, redirectUrl) {
  const cookies = new Map();
  let request = [start, {}];
  for (let steps = 0; steps < 20; steps++) {
    const [url, init] = request;
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(url, { ...init, redirect: 'manual', headers: { ...init.headers, cookie } });
    for (const line of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
      cookies.set(name, value);
    }
    const location = response.headers.get('location');
    if (location) {
      const next = new URL(location, url);
      if (next.href.startsWith(redirectUrl)) {
        if (!next.searchParams.get('code')) throw new Error(`no code in ${next.search}`);
        return next;
      }
      request = [next, {}];
      continue;
    }
    const page = await response.text();
    const form = /<form[^>]*action="([^"]+)"/.exec(page);
    const prompt = /name="prompt" value="([^"]+)"/.exec(page);
    if (!form || !prompt) throw new Error(`HTTP ${response.status}, and no form: ${page.replace(/<style>[^]*?<\/style>/, "").slice(-500)}`);
    const body = new URLSearchParams({ prompt: prompt[1], login: user, password: 'any' });
    request = [new URL(form[1], url), { method: 'POST', body }];
  }
  throw new Error('signing in does not end');
}
