-- To whom a call of a worker's tool was made, and by which definition of it (`model.worker.offer_of`). Of calls that are
-- there already nobody knows: those that wait are given to nobody, and end when their time is over; those that run are
-- their holder's.
ALTER TABLE calls ADD COLUMN offer text COLLATE "C";
ALTER TABLE waiting ADD COLUMN offer text COLLATE "C";
ALTER TYPE new_call ADD ATTRIBUTE offer text;
DROP INDEX waiting_for_workers;
CREATE INDEX waiting_for_workers ON waiting (offer, ready, created_at, seq) WHERE queue = 'worker';
