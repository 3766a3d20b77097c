-- To whom a call of a worker's tool was made, and by which definition of it (`model.worker.offer_of`). Of calls that are
-- there already nobody knows: those that wait are given to nobody, and end when their time is over; those that run are
-- their holder's.
ALTER TABLE calls ADD COLUMN offer TEXT;
CREATE INDEX calls_offered ON calls (offer, seq) WHERE state = 'PENDING' AND offer IS NOT NULL;
