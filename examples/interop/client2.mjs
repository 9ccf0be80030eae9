// The v2 client package. MODE is how it negotiates a revision: "legacy", its default, opens a session,
// "auto" asks the server first, and a revision pins that one.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { drive, watchStream } from './drive.mjs';

await drive(async (url, mode, onChanged) => {
  const stream = watchStream();
  const transport = new StreamableHTTPClientTransport(url, { fetch: stream.fetch });
  const client = new Client(
    { name: 'promptweir-interop-client2', version: '1.0.0' },
    { versionNegotiation: { mode: /^\d/.test(mode) ? { pin: mode } : mode } },
  );
  client.setNotificationHandler('notifications/prompts/list_changed', onChanged);
  await client.connect(transport);
  const revision = client.getNegotiatedProtocolVersion();

  // Sessions are notified without asking. Since 2026-07-28 a client subscribes, and the server's
  // acknowledgment says to which notifications.
  let subscription;
  if (revision < '2026-07-28') {
    await stream.opened;
  } else {
    subscription = await client.listen({ promptsListChanged: true });
    if (!subscription.honoredFilter.promptsListChanged) throw new Error('the subscription is not honoured');
  }
  return {
    revision,
    // listPrompts without a cursor walks all pages. To get a single page takes a plain request.
    page: (params) => client.request({ method: 'prompts/list', params }),
    get: (params) => client.getPrompt(params),
    complete: (params) => client.complete(params),
    close: async () => {
      await subscription?.close();
      if (revision < '2026-07-28') await transport.terminateSession();
      await client.close();
    },
  };
});
