// A provider at which users have accounts, in a process of its own: node accounts.mjs MODULES PORT REDIRECT_URI...
//
// It lets anybody in under any name, asks for consent, rotates refresh tokens, takes tokens back, and wants PKCE. Its
// clients are toolyard, which uses accounts; front-door, at which people sign in to toolyard; and agent, which gets access
// tokens for https://tools.example. Who is called ada@acme has the nickname ada and the tenant acme. It says "ready" on
// standard output once it listens, and on standard error what it was asked for and which grants it gave or refused.

import { generateKeyPairSync } from "node:crypto";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, port, ...redirectUris] = process.argv.slice(2);
const { Provider } = await import(pathToFileURL(createRequire(`${modules}/`).resolve("oidc-provider")));
const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const say = (line) => process.stderr.write(`${line}\n`);
const doors = redirectUris.filter((uri) => uri.endsWith("/signed-in"));
const web = (client_id, redirect_uris, ...more) => ({
  client_id,
  client_secret: `the-secret-of-${client_id}`,
  grant_types: ["authorization_code", ...more],
  redirect_uris,
  response_types: ["code"],
  id_token_signed_response_alg: "ES256",
});
const tools = {
  audience: "https://tools.example",
  scope: "tools:call",
  accessTokenFormat: "jwt",
  accessTokenTTL: 3600,
  jwt: { sign: { alg: "ES256" } },
};
const claimsOf = (id) => {
  const [nickname, tenant] = id.split("@");
  return { sub: id, email: `${id}@example.com`, nickname, ...(tenant ? { tenant } : {}) };
};

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    web("toolyard", redirectUris.filter((uri) => !doors.includes(uri)), "refresh_token"),
    web("agent", ["http://127.0.0.1:9/agent"], "client_credentials"),
    ...(doors.length ? [web("front-door", doors)] : []),
  ],
  claims: { openid: ["sub", "nickname", "tenant"], email: ["email"] },
  conformIdTokenClaims: false,
  features: {
    clientCredentials: { enabled: true },
    resourceIndicators: { enabled: true, getResourceServerInfo: () => tools },
    revocation: { enabled: true },
  },
  findAccount: (_, id) => ({ accountId: id, claims: () => claimsOf(id) }),
  jwks: { keys: [{ ...privateKey.export({ format: "jwk" }), kid: "one", alg: "ES256", use: "sig" }] },
  pkce: { required: () => true },
  rotateRefreshToken: true,
  scopes: ["openid", "offline_access", "email", "mail.read", "mail.send"],
  ttl: {
    AccessToken: 3600,
    AuthorizationCode: 60,
    Grant: 86400,
    IdToken: 86400,
    Interaction: 600,
    RefreshToken: 86400,
    Session: 86400,
  },
});

provider.use((ctx, next) => {
  say(`${ctx.method} ${ctx.path}`);
  return next();
});
provider.on("grant.success", (ctx) => say(`gave ${ctx.oidc.params.grant_type}`));
provider.on("grant.error", (ctx, error) => say(`refused ${ctx.oidc?.params?.grant_type} ${error.error}`));
provider.on("grant.revoked", () => say("revoked"));
provider.listen(Number(port), "127.0.0.1", () => process.stdout.write("ready\n"));
