// An identity provider in a process of its own: node provider.mjs MODULES PORT NAME
//
// Its keys are new at every start, one for each algorithm, and have ids such as NAME-ES256. Its one client gets access
// tokens for itself (client_credentials), for a resource whose last word is the algorithm they are signed with. It says
// "ready" on standard output once it listens, and on standard error what it was asked for.

import { generateKeyPairSync } from "node:crypto";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, port, name] = process.argv.slice(2);
const { Provider } = await import(pathToFileURL(createRequire(`${modules}/`).resolve("oidc-provider")));

const KEYS = {
  ES256: ["ec", { namedCurve: "P-256" }],
  ES384: ["ec", { namedCurve: "P-384" }],
  RS256: ["rsa", { modulusLength: 2048 }],
  PS256: ["rsa", { modulusLength: 2048 }],
  EdDSA: ["ed25519", {}],
};

const newKey = ([alg, [type, options]]) => {
  const { privateKey } = generateKeyPairSync(type, options);
  return { ...privateKey.export({ format: "jwk" }), kid: `${name}-${alg}`, alg, use: "sig" };
};

const resourceServer = (_, resource) => ({
  audience: "https://tools.example",
  scope: "tools:call tools:list",
  accessTokenFormat: "jwt",
  accessTokenTTL: 7200,
  jwt: { sign: { alg: resource.split("/").pop() } },
});

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: "agent",
      client_secret: "the-secret-of-the-agent",
      grant_types: ["client_credentials"],
      redirect_uris: [],
      response_types: [],
      token_endpoint_auth_method: "client_secret_post",
    },
  ],
  jwks: { keys: Object.entries(KEYS).map(newKey) },
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: { enabled: true, getResourceServerInfo: resourceServer },
  },
  ttl: { ClientCredentials: 7200 },
});

provider.use((ctx, next) => {
  process.stderr.write(`${ctx.method} ${ctx.path}\n`);
  return next();
});
provider.listen(Number(port), "127.0.0.1", () => process.stdout.write("ready\n"));
