-- A call that is claimed, renewed and answered grows by the name of its holder, times and a digest. With as much room the
-- last rows of a page need not move to another, which would cost an entry in each index.
ALTER TABLE calls SET (fillfactor = 40);

-- What workers may claim, in order. `waiting_for_workers` has the same with the offers in full, whatever their state.
CREATE INDEX waiting_by_offer ON waiting (hashtextextended(offer, 0), created_at, seq) WHERE queue = 'worker' AND ready;
