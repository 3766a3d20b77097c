-- What each node used of what is limited: in a minute by the clock and the one before it, and what runs there.
-- It changes twice a second and is worth nothing after a crash.
CREATE UNLOGGED TABLE usage (
    node text COLLATE "C" NOT NULL,
    name bytea NOT NULL,
    minute bigint NOT NULL,
    used bigint NOT NULL,
    before bigint NOT NULL,
    running bigint NOT NULL,
    PRIMARY KEY (node, name)
) WITH (fillfactor = 45);
