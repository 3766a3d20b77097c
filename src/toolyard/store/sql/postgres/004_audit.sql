-- The audit log: blocks of entries, in chains. Each node writes one of its own.
CREATE TABLE audit (
    chain text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    count bigint NOT NULL,
    first_at double precision NOT NULL,
    last_at double precision NOT NULL,
    mac bytea NOT NULL,
    entries bytea NOT NULL,
    PRIMARY KEY (chain, number)
);
CREATE INDEX audit_by_age ON audit (chain, last_at, number);

-- Where each chain ends, and after which block it begins where older ones were dropped.
CREATE TABLE audit_heads (
    chain text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL,
    mac bytea NOT NULL,
    count bigint NOT NULL,
    at double precision NOT NULL,
    seal bytea NOT NULL
) WITH (fillfactor = 45);
CREATE TABLE audit_anchors (
    chain text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL,
    mac bytea NOT NULL,
    count bigint NOT NULL,
    at double precision NOT NULL,
    seal bytea NOT NULL
);

-- Against accidents. What is done on purpose, the signatures show.
CREATE FUNCTION audit_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND OLD.number <= (SELECT number FROM audit_anchors WHERE chain = OLD.chain) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'a block of the audit log does not change, and is dropped only after its anchor is there';
END $$;
CREATE TRIGGER audit_stays BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_stays();
