// The TypeScript SDK's client: `node typescript_client.mjs SDK NAME URL`, or `… NAME COMMAND ARGUMENT…`. It says
// that it is connected, and at the end what it saw, as JSON; what the tool NAME does meanwhile is up to the test.
const [, , sdk, name, target, ...rest] = process.argv;
const load = (path) => import(`${sdk}/dist/esm/${path}`);
const { Client } = await load("client/index.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
const { StdioClientTransport } = await load("client/stdio.js");
const { ElicitRequestSchema } = await load("types.js");

const transport = target.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target, args: rest, env: process.env });
const client = new Client({ name: "typescript", version: "1" }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, async () => ({ action: "accept", content: { name: "Ada" } }));
await client.connect(transport);
process.stdout.write("connected\n");

const saw = { tools: (await client.listTools()).tools.length, progress: [] };
saw.greeting = (await client.callTool({ name: "greet", arguments: { name: "Ada" } })).structuredContent;
saw.failed = (await client.callTool({ name: "Kit_Fail", arguments: {} })).isError;
saw.unknown = await client.callTool({ name: "nobody", arguments: {} }).catch((error) => error.code);
const acting = { name: "Play_Act", arguments: { name } };
const onprogress = (said) => saw.progress.push(said.progress);
saw.acted = (await client.callTool(acting, undefined, { onprogress })).content[0].text;
const going = new AbortController();
const onstart = () => going.abort("enough");
await client.callTool(acting, undefined, { signal: going.signal, onprogress: onstart }).catch(() => (saw.gone = true));
await client.ping(); // who closes at once says nothing
await client.close();
process.stdout.write(JSON.stringify(saw) + "\n");
