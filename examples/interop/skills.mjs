// The SkillsClient of the TypeScript SDK 2, which verifies what it reads: lists all skills, gets each, reads all files and
// folders, and prints what it saw.
//
//   node skills.mjs REVISION URL
//   node skills.mjs REVISION COMMAND ARGUMENT...
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { isDeepStrictEqual } from 'node:util';

const [revision, target, ...args] = process.argv.slice(2);
const client = new Client(
  { name: 'promptweir-interop-skills', version: '1.0.0' },
  revision < '2026-07-28' ? {} : { versionNegotiation: { mode: { pin: revision } } },
);
await client.connect(
  target.startsWith('http') ? new StreamableHTTPClientTransport(new URL(target)) : new StdioClientTransport({ command: target, args }),
);
const skills = new SkillsClient(client);
const seen = { revision: client.getNegotiatedProtocolVersion(), verified: [], folders: [], unknown: 0 };
for (const entry of (await skills.list()).skills) {
  const got = (await skills.get(entry.uri)).skill;
  if (!isDeepStrictEqual(got, entry)) throw new Error(`${entry.uri} is got as ${JSON.stringify(got)}, listed as ${JSON.stringify(entry)}`);
  for (const file of entry.resources) {
    if (!(await skills.read(entry, file.uri)).verified) throw new Error(`${file.uri} is not verified`);
    seen.verified.push(file.uri);
  }
  const { resources } = await skills.readDirectory(entry.uri.replace(/\/SKILL\.md$/, ''));
  seen.folders.push(...resources.filter((r) => r.mimeType === 'inode/directory').map((r) => r.uri));
}
try {
  await client.readResource({ uri: 'skill://files/none/SKILL.md' });
} catch (error) {
  seen.unknown = error.code;
}
console.log(JSON.stringify(seen));
await client.close();
