CREATE TABLE public.catalogs (
    epoch integer NOT NULL,
    digest text NOT NULL,
    changes bigint NOT NULL
);
CREATE TABLE public.counters (
    hour bigint NOT NULL,
    learner text NOT NULL COLLATE pg_catalog."C",
    worker text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    value double precision NOT NULL
);
CREATE TABLE public.impressions (
    id bytea NOT NULL,
    "user" text NOT NULL COLLATE pg_catalog."C",
    learner text NOT NULL COLLATE pg_catalog."C",
    topics integer NOT NULL,
    items text NOT NULL,
    numbers bytea NOT NULL,
    predicted double precision NOT NULL,
    clicked text,
    answer text,
    answered_at double precision,
    sequence bigint
);
CREATE TABLE public.item_changes (
    epoch integer NOT NULL,
    seq bigint NOT NULL,
    item text NOT NULL,
    weights text,
    at double precision NOT NULL
);
CREATE TABLE public.learners (
    name text NOT NULL COLLATE pg_catalog."C",
    settings text NOT NULL
);
CREATE TABLE public.meta (
    name text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL
);
CREATE TABLE public.statistics (
    "user" text NOT NULL COLLATE pg_catalog."C",
    learner text NOT NULL COLLATE pg_catalog."C",
    topics integer NOT NULL,
    updates bigint NOT NULL,
    sequence bigint NOT NULL,
    numbers bytea NOT NULL
);
CREATE TABLE public.topic_sets (
    number integer NOT NULL,
    names text NOT NULL
);
INSERT INTO public.catalogs VALUES (1, 'b0320060be331f31040f0299f894eacfad01e9580bdcf30ff7a158a85142e85b', 2);
INSERT INTO public.catalogs VALUES (2, '4e62ed8e25153f0928a8ac338f07c43e066fc35c5c6bccb84077b8f9578a9037', 3);
INSERT INTO public.counters VALUES (0, 'diverse', '07b3509c', 'users', 5);
INSERT INTO public.counters VALUES (0, 'diverse', '4c6d7e52', 'users', 2);
INSERT INTO public.counters VALUES (0, 'plain', '07b3509c', 'users', 3);
INSERT INTO public.counters VALUES (472222, 'diverse', '07b3509c', 'answered', 15);
INSERT INTO public.counters VALUES (472222, 'diverse', '07b3509c', 'bin0_answered', 9);
INSERT INTO public.counters VALUES (472222, 'diverse', '07b3509c', 'bin0_clicked', 5);
INSERT INTO public.counters VALUES (472222, 'diverse', '07b3509c', 'bin8_answered', 6);
INSERT INTO public.counters VALUES (472222, 'diverse', '07b3509c', 'bin8_clicked', 5);
INSERT INTO public.counters VALUES (472222, 'diverse', '07b3509c', 'bin8_predicted', 4.940200548717853);
INSERT INTO public.counters VALUES (472222, 'diverse', '07b3509c', 'clicked', 10);
INSERT INTO public.counters VALUES (472222, 'diverse', '07b3509c', 'diversity', 5.397241219563604);
INSERT INTO public.counters VALUES (472222, 'diverse', '07b3509c', 'exploration', 13.880459703291951);
INSERT INTO public.counters VALUES (472222, 'diverse', '07b3509c', 'impressions', 15);
INSERT INTO public.counters VALUES (472222, 'diverse', '4c6d7e52', 'answered', 3);
INSERT INTO public.counters VALUES (472222, 'diverse', '4c6d7e52', 'bin0_answered', 3);
INSERT INTO public.counters VALUES (472222, 'diverse', '4c6d7e52', 'bin0_clicked', 2);
INSERT INTO public.counters VALUES (472222, 'diverse', '4c6d7e52', 'clicked', 2);
INSERT INTO public.counters VALUES (472222, 'diverse', '4c6d7e52', 'diversity', 2.1548220313557542);
INSERT INTO public.counters VALUES (472222, 'diverse', '4c6d7e52', 'impressions', 4);
INSERT INTO public.counters VALUES (472222, 'plain', '07b3509c', 'answered', 4);
INSERT INTO public.counters VALUES (472222, 'plain', '07b3509c', 'bin0_answered', 4);
INSERT INTO public.counters VALUES (472222, 'plain', '07b3509c', 'bin0_clicked', 3);
INSERT INTO public.counters VALUES (472222, 'plain', '07b3509c', 'bin9_answered', 0);
INSERT INTO public.counters VALUES (472222, 'plain', '07b3509c', 'bin9_predicted', 0);
INSERT INTO public.counters VALUES (472222, 'plain', '07b3509c', 'clicked', 3);
INSERT INTO public.counters VALUES (472222, 'plain', '07b3509c', 'diversity', 1.6914926994202006);
INSERT INTO public.counters VALUES (472222, 'plain', '07b3509c', 'exploration', 4.656558625414421);
INSERT INTO public.counters VALUES (472222, 'plain', '07b3509c', 'impressions', 5);
INSERT INTO public.counters VALUES (472224, 'plain', '07b3509c', 'diversity', 0.3945011396907579);
INSERT INTO public.counters VALUES (472224, 'plain', '07b3509c', 'exploration', 0.8490319987618641);
INSERT INTO public.counters VALUES (472224, 'plain', '07b3509c', 'impressions', 1);
INSERT INTO public.counters VALUES (472236, 'diverse', 'a19b7efe', 'answered', 1);
INSERT INTO public.counters VALUES (472236, 'diverse', 'a19b7efe', 'bin8_answered', 1);
INSERT INTO public.counters VALUES (472236, 'diverse', 'a19b7efe', 'bin8_clicked', 1);
INSERT INTO public.counters VALUES (472236, 'diverse', 'a19b7efe', 'bin8_predicted', 0.8255813832412541);
INSERT INTO public.counters VALUES (472236, 'diverse', 'a19b7efe', 'clicked', 1);
INSERT INTO public.counters VALUES (472236, 'diverse', 'a19b7efe', 'diversity', 0.6150998205402495);
INSERT INTO public.counters VALUES (472236, 'diverse', 'a19b7efe', 'exploration', 0.7882972437687683);
INSERT INTO public.counters VALUES (472236, 'diverse', 'a19b7efe', 'impressions', 1);
INSERT INTO public.counters VALUES (472237, 'diverse', 'a19b7efe', 'answered', 4);
INSERT INTO public.counters VALUES (472237, 'diverse', 'a19b7efe', 'bin0_answered', 2);
INSERT INTO public.counters VALUES (472237, 'diverse', 'a19b7efe', 'bin0_clicked', 1);
INSERT INTO public.counters VALUES (472237, 'diverse', 'a19b7efe', 'bin8_answered', 1);
INSERT INTO public.counters VALUES (472237, 'diverse', 'a19b7efe', 'bin8_clicked', 1);
INSERT INTO public.counters VALUES (472237, 'diverse', 'a19b7efe', 'bin8_predicted', 0.8255813832412541);
INSERT INTO public.counters VALUES (472237, 'diverse', 'a19b7efe', 'bin9_answered', 1);
INSERT INTO public.counters VALUES (472237, 'diverse', 'a19b7efe', 'bin9_clicked', 1);
INSERT INTO public.counters VALUES (472237, 'diverse', 'a19b7efe', 'bin9_predicted', 1);
INSERT INTO public.counters VALUES (472237, 'diverse', 'a19b7efe', 'clicked', 3);
INSERT INTO public.counters VALUES (472237, 'diverse', 'a19b7efe', 'diversity', 2.8151624465313883);
INSERT INTO public.counters VALUES (472237, 'diverse', 'a19b7efe', 'exploration', 3.3454742109735416);
INSERT INTO public.counters VALUES (472237, 'diverse', 'a19b7efe', 'impressions', 4);
INSERT INTO public.counters VALUES (472238, 'diverse', 'a19b7efe', 'answered', 3);
INSERT INTO public.counters VALUES (472238, 'diverse', 'a19b7efe', 'bin3_answered', 1);
INSERT INTO public.counters VALUES (472238, 'diverse', 'a19b7efe', 'bin3_clicked', 1);
INSERT INTO public.counters VALUES (472238, 'diverse', 'a19b7efe', 'bin3_predicted', 0.35561594539926744);
INSERT INTO public.counters VALUES (472238, 'diverse', 'a19b7efe', 'bin9_answered', 2);
INSERT INTO public.counters VALUES (472238, 'diverse', 'a19b7efe', 'bin9_predicted', 2);
INSERT INTO public.counters VALUES (472238, 'diverse', 'a19b7efe', 'clicked', 1);
INSERT INTO public.counters VALUES (472238, 'diverse', 'a19b7efe', 'diversity', 1.7811344920100913);
INSERT INTO public.counters VALUES (472238, 'diverse', 'a19b7efe', 'exploration', 1.8285301097340136);
INSERT INTO public.counters VALUES (472238, 'diverse', 'a19b7efe', 'impressions', 3);
INSERT INTO public.counters VALUES (472239, 'diverse', 'a19b7efe', 'answered', 2);
INSERT INTO public.counters VALUES (472239, 'diverse', 'a19b7efe', 'bin5_answered', 0);
INSERT INTO public.counters VALUES (472239, 'diverse', 'a19b7efe', 'bin5_clicked', 0);
INSERT INTO public.counters VALUES (472239, 'diverse', 'a19b7efe', 'bin5_predicted', 0);
INSERT INTO public.counters VALUES (472239, 'diverse', 'a19b7efe', 'bin6_answered', 1);
INSERT INTO public.counters VALUES (472239, 'diverse', 'a19b7efe', 'bin6_clicked', 1);
INSERT INTO public.counters VALUES (472239, 'diverse', 'a19b7efe', 'bin6_predicted', 0.652631672858334);
INSERT INTO public.counters VALUES (472239, 'diverse', 'a19b7efe', 'bin7_answered', 1);
INSERT INTO public.counters VALUES (472239, 'diverse', 'a19b7efe', 'bin7_clicked', 1);
INSERT INTO public.counters VALUES (472239, 'diverse', 'a19b7efe', 'bin7_predicted', 0.7604532206472827);
INSERT INTO public.counters VALUES (472239, 'diverse', 'a19b7efe', 'clicked', 2);
INSERT INTO public.counters VALUES (472239, 'diverse', 'a19b7efe', 'diversity', 2.0061890003995786);
INSERT INTO public.counters VALUES (472239, 'diverse', 'a19b7efe', 'exploration', 2.2946150428722767);
INSERT INTO public.counters VALUES (472239, 'diverse', 'a19b7efe', 'impressions', 4);
INSERT INTO public.impressions VALUES ('\x018bcfe65260779f9ef921e90ebf7573', 'ana', 'diverse', 0, '["film 8", "film 11", "film 17"]', '\x000000000000000000000000000000000000000000000000a16b0c07ef201540da96db48bb610640f7ed31cec5f6f43fad799309d122e53f94a530498dceed3fb8c6767d3d85ca3f007633ecb229e43f9b378f71949faa3f810470d87449e63fb2641475f660a33f173dc4881cf4d43fb4419cd1a31f853f040003000200000001000200030001000200030000000100', 0, '[0]', 'feedback', 1700000065, 1);
INSERT INTO public.impressions VALUES ('\x018bcfe75048769fbd310b0c243c085c', 'ben', 'diverse', 0, '["film 8", "film 11", "film 17"]', '\x000000000000000000000000000000000000000000000000a16b0c07ef201540da96db48bb610640f7ed31cec5f6f43fad799309d122e53f94a530498dceed3fb8c6767d3d85ca3f007633ecb229e43f9b378f71949faa3f810470d87449e63fb2641475f660a33f173dc4881cf4d43fb4419cd1a31f853f040003000200000001000200030001000200030000000100', 0, '[]', 'feedback', 1700000130, 1);
INSERT INTO public.impressions VALUES ('\x018bcfe84e307a06af9e0b8b472ec63f', 'cleo', 'plain', 0, '["film 8", "film 11", "film 17"]', '\x0000000000000000000000000000000000000000000000002d3abb5ee92b0c40cbd98681dfdb0840911d6f732a800840ad799309d122e53f94a530498dceed3fb8c6767d3d85ca3f007633ecb229e43f8b9fdeac5047e83f536bea79821cec3f0874626ea331ba3f555a1cb904dcee3f9201bf734af5e33f040003000200000001000200030001000200030000000100', 0, '[2]', 'feedback', 1700000195, 1);
INSERT INTO public.impressions VALUES ('\x018bcfe94c187e68804635e6d60135c0', 'dev', 'diverse', 0, '["film 8", "film 11", "film 17"]', '\x000000000000000000000000000000000000000000000000a16b0c07ef201540da96db48bb610640f7ed31cec5f6f43fad799309d122e53f94a530498dceed3fb8c6767d3d85ca3f007633ecb229e43f9b378f71949faa3f810470d87449e63fb2641475f660a33f173dc4881cf4d43fb4419cd1a31f853f040003000200000001000200030001000200030000000100', 0, '[0, 1]', 'feedback', 1700000260, 1);
INSERT INTO public.impressions VALUES ('\x018bcfea4a007c5090f04c5975d43bf5', 'Zoë 李', 'diverse', 0, '["film 8", "film 11", "film 17"]', '\x000000000000000000000000000000000000000000000000a16b0c07ef201540da96db48bb610640f7ed31cec5f6f43fad799309d122e53f94a530498dceed3fb8c6767d3d85ca3f007633ecb229e43f9b378f71949faa3f810470d87449e63fb2641475f660a33f173dc4881cf4d43fb4419cd1a31f853f040003000200000001000200030001000200030000000100', 0, '[0]', 'feedback', 1700000325, 1);
INSERT INTO public.impressions VALUES ('\x018bcfec45d07829b6350399b31c73bc', 'ana', 'diverse', 0, '["film 11", "film 17", "film 8"]', '\x3f0b577d6819e13f4babae30d0e1db3f724cd086ad5bd03fae147074f2790d4051c947dc74130940cc80f732f972fd3f8b9fdeac5047e83f536bea79821cec3f0874626ea331ba3f555a1cb904dcee3f5d17ce3a6043c33f71bc279b521b983f9125ef1fe3a6b53f825b69bc37c8993fca6db8e58d19e23f030002000400010002000300000001000000010002000300', 0.8043815552816967, '[2]', 'feedback', 1700000455, 2);
INSERT INTO public.impressions VALUES ('\x018bcfed43b8727fbec46841b2284a5a', 'ben', 'plain', 0, '["film 8", "film 11", "film 17"]', '\x0000000000000000000000000000000000000000000000002d3abb5ee92b0c40cbd98681dfdb0840911d6f732a800840ad799309d122e53f94a530498dceed3fb8c6767d3d85ca3f007633ecb229e43f8b9fdeac5047e83f536bea79821cec3f0874626ea331ba3f555a1cb904dcee3f9201bf734af5e33f040003000200000001000200030001000200030000000100', 0, '[0, 1]', 'feedback', 1700000520, 1);
INSERT INTO public.impressions VALUES ('\x018bcfee41a074c3bcb1fd96f0a22dde', 'cleo', 'diverse', 0, '["film 8", "film 11", "film 17"]', '\x000000000000000000000000000000000000000000000000a16b0c07ef201540da96db48bb610640f7ed31cec5f6f43fad799309d122e53f94a530498dceed3fb8c6767d3d85ca3f007633ecb229e43f9b378f71949faa3f810470d87449e63fb2641475f660a33f173dc4881cf4d43fb4419cd1a31f853f040003000200000001000200030001000200030000000100', 0, '[0]', 'feedback', 1700000585, 1);
INSERT INTO public.impressions VALUES ('\x018bcfef3f887e1c8add70dfd593c043', 'dev', 'diverse', 0, '["film 11", "film 17", "film 8"]', '\x3f0b577d6819e13f4babae30d0e1db3f724cd086ad5bd03fae147074f2790d4051c947dc74130940cc80f732f972fd3f8b9fdeac5047e83f536bea79821cec3f0874626ea331ba3f555a1cb904dcee3f5d17ce3a6043c33f71bc279b521b983f9125ef1fe3a6b53f825b69bc37c8993fca6db8e58d19e23f030002000400010002000300000001000000010002000300', 0.8043815552816967, '[]', 'feedback', 1700000650, 2);
INSERT INTO public.impressions VALUES ('\x018bcff03d707a8dbdb3615871dc886d', 'Zoë 李', 'diverse', 0, '["film 11", "film 17", "film 8"]', '\x3f0b577d6819e13f4babae30d0e1db3f724cd086ad5bd03fae147074f2790d4051c947dc74130940cc80f732f972fd3f8b9fdeac5047e83f536bea79821cec3f0874626ea331ba3f555a1cb904dcee3f5d17ce3a6043c33f71bc279b521b983f9125ef1fe3a6b53f825b69bc37c8993fca6db8e58d19e23f030002000400010002000300000001000000010002000300', 0.8043815552816967, '[2]', 'feedback', 1700000715, 2);
INSERT INTO public.impressions VALUES ('\x018bcff239407c7f8bc5598d039561c2', 'ana', 'plain', 0, '["film 8", "film 11", "film 17"]', '\x0000000000000000000000000000000000000000000000002d3abb5ee92b0c40cbd98681dfdb0840911d6f732a800840ad799309d122e53f94a530498dceed3fb8c6767d3d85ca3f007633ecb229e43f8b9fdeac5047e83f536bea79821cec3f0874626ea331ba3f555a1cb904dcee3f9201bf734af5e33f040003000200000001000200030001000200030000000100', 0, '[0]', 'feedback', 1700000845, 1);
INSERT INTO public.impressions VALUES ('\x018bcff337287406834064419eb6cc98', 'ben', 'diverse', 0, '["film 15", "film 18", "M \"1931\", a/b | c"]', '\x000000000000000000000000000000000000000000000000d02a23dbfc480040b5e1759e0a61fe3f0b963a0defcee63fd40fe681a913c73fcdcda5d83612e83f57968ac8ae24e23fade703bcfda4e43fc0daca030147e93f570a418d2174983fd2fc8c5b2aa4cc3f0300020002000000020003000000010001000300', 0, '[]', 'feedback', 1700000910, 2);
INSERT INTO public.impressions VALUES ('\x018bcff435107194b13719d94a23c6b3', 'cleo', 'diverse', 0, '["film 11", "film 17", "film 8"]', '\x3f0b577d6819e13f4babae30d0e1db3f724cd086ad5bd03fae147074f2790d4051c947dc74130940cc80f732f972fd3f8b9fdeac5047e83f536bea79821cec3f0874626ea331ba3f555a1cb904dcee3f5d17ce3a6043c33f71bc279b521b983f9125ef1fe3a6b53f825b69bc37c8993fca6db8e58d19e23f030002000400010002000300000001000000010002000300', 0.8043815552816967, '[2]', 'feedback', 1700000975, 2);
INSERT INTO public.impressions VALUES ('\x018bcff532f8726b8e2fcac70baa5bab', 'dev', 'diverse', 0, '["film 18", "film 15", "film 8"]', '\xaf7c5d340472ea3f8cfb15d6fc35e4bffeb9b6aa877bc83f42f439f94ed8f13f1aa263807032fc3f67080e8bb44cd03f575bd33a5f2fe93fc0daca030147e93fb104a11a8ea8a33fcdcda5d83612e83f57968ac8ae24e23fdd3b3b259d84bd3f8b142eb22e0cc93f0a4a8ae1db48aa3f23e9e7794276d13f020003000400000001000000020003000000010002000300', 0.8596190170625451, '[0, 1]', 'feedback', 1700001040, 3);
INSERT INTO public.impressions VALUES ('\x018bcff630e0745c984533ea5c544971', 'Zoë 李', 'diverse', 0, '["film 15", "film 8", "film 13"]', '\xf3b704ee0383e73f0cc21d723bc8dd3f7a43cd25619aa13f5dea11c6e225fd3f5202b78e825af13f07c5a335597cd23fd40fe681a913c73fcdcda5d83612e83f57968ac8ae24e23f6f7b68515053e13f94a530498dceed3f0a4a8ae1db48aa3f23e9e7794276d13f4a4f7670c97d943f57c1add275e7c53f8629a3137c95a63f0300040003000000020003000000010002000300010002000300', 0.863055310528521, '[0]', 'feedback', 1700001105, 3);
INSERT INTO public.impressions VALUES ('\x018bcff7425077d0838f6222bf128b2a', 'ben', 'diverse', 0, '["film 6", "film 8", "film 11"]', '\x000000000000000000000000000000000000000000000000ae663ed47889fa3f327b78d5c6edf53f7ab778ba22add63f1861a1a7e588ec3fc4a88f03f029de3f902d4cc7734fb23f94a530498dceed3feeb844b4cf0abc3f007633ecb229e43f9b378f71949faa3f3b6ddaded690d73fb2641475f660a33f020004000300000002000000010002000300010002000300', 0, '[]', 'time-out', 1700008370, 3);
INSERT INTO public.impressions VALUES ('\x018bcff742507ac68b567bd53a487eef', 'cleo', 'plain', 0, '["film 6", "film 12", "film 17"]', '\xc7fef241b514e73f1ea5b4dd30fbe53f80278ac6f7f9ea3feec6ba161de4fc3f352655eff836fc3f125278173d81e73f1861a1a7e588ec3fc4a88f03f029de3f50fd525e4d31eb3f6cbdf93224b3de3f555a1cb904dcee3f9201bf734af5e33f020002000200000002000000020000000100', 0.9863006966128958, NULL, NULL, NULL, NULL);
INSERT INTO public.impressions VALUES ('\x018bd06523387fd297a81fd6ba79ecbe', 'ana', 'plain', 0, '["film 11", "film 6", "film 12"]', '\x28275b730ea2e03fe31c8d788af6d73f4f851194880ed73f2aadb0f5a1cf034078470730af990240f45b75695e0702408b9fdeac5047e83f536bea79821cec3f0874626ea331ba3f1861a1a7e588ec3fc4a88f03f029de3f50fd525e4d31eb3f6cbdf93224b3de3f0300020002000100020003000000020000000200', 0.807814198767896, NULL, NULL, NULL, NULL);
INSERT INTO public.impressions VALUES ('\x018bd30793787172bc2941c30ff9264a', 'ana', 'diverse', 1, '["film 11", "film 4", "film 15"]', '\x2022793366cad93f49a48557b9a6e63f00000000000000006c9bdc8c8a85044033ac97dcbf48e63f9a30bd2499fdeb3fa4aef0234910d93f69804aa3207dec3f80dab62a26f1e33f59c884dff5cde03f9a30bd2499fdcb3f03000100010000000100030000000300', 0.8255813832412541, '[1]', 'feedback', 1700052571, 3);
INSERT INTO public.impressions VALUES ('\x018bd316d5b87845bf2301cd1cb1ca29', 'ben', 'diverse', 1, '["film 11", "film 15", "film 6"]', '\x0000000000000000000000000000000000000000000000000d296cd1388104409a30bd2499fdeb3f7dbe4a5998c3e83fa4aef0234910d93f69804aa3207dec3f80dab62a26f1e33f9a30bd2499fdcb3fc4e91ba4fbf5d73fdebfaecf24e9ef3f030001000200000001000300030000000200', 0, '[]', 'feedback', 1700053571, 4);
INSERT INTO public.impressions VALUES ('\x018bd32617f87ce9ab0e4393c99ffce9', 'cleo', 'diverse', 1, '["film 11", "film 4", "film 15"]', '\x2022793366cad93f49a48557b9a6e63f00000000000000006c9bdc8c8a85044033ac97dcbf48e63f9a30bd2499fdeb3fa4aef0234910d93f69804aa3207dec3f80dab62a26f1e33f59c884dff5cde03f9a30bd2499fdcb3f03000100010000000100030000000300', 0.8255813832412541, '[0]', 'feedback', 1700054571, 3);
INSERT INTO public.impressions VALUES ('\x018bd3355a387e2587e8191e049eb61a', 'ana', 'diverse', 1, '["film 4", "film 15", "film 12"]', '\xcd65b05879eff53ffe6cf45d718dd4bf928f734d0a97cabf4ca77d57a7a0eb3fd82b28b2b5bbeb3f7244cb5a2422e53f6fdb4267299feb3f07f153391592e23ff18b8028ba8a873f8511ec5605a5ea3f0100010002000000030000000100', 1, '[0]', 'feedback', 1700055571, 4);
INSERT INTO public.impressions VALUES ('\x018bd3449c78781aa6114eed40a426ea', 'ben', 'diverse', 1, '["film 15", "film 19", "film 6"]', '\x000000000000000000000000000000000000000000000000f161b4905a36e93f936b6737c4a3e33f4be2b7f2f784e33f07f153391592e23f01304ba0d4d7ef3f4d96aa6063b6c83fcc3b081e3cb1e33fdebfaecf24e9ef3f01000200020003000100030000000200', 0, '[1]', 'feedback', 1700056571, 5);
INSERT INTO public.impressions VALUES ('\x018bd353deb87a2d9ac11f8d6b317531', 'cleo', 'diverse', 1, '["film 7", "film 11", "film 6"]', '\x0f9ec6ca77e6f33f8374af610ab0d83fcefe90bbdd00edbf7c1e8bcfff59f13fae484c0b42a6e43f7bc08404902ff63f0e256cbef5efe53f5a0e2daf16e4d83f0db403219c86bf3f69804aa3207dec3f25207f624b5fd83f731d4f3c8523be3fdebfaecf24e9ef3f0200030002000000030000000100030000000200', 1, '[]', 'feedback', 1700057571, 4);
INSERT INTO public.impressions VALUES ('\x018bd36320f87307848d594e82ab3e62', 'ana', 'diverse', 1, '["film 4", "film 15", "film 12"]', '\xd445dad7f0bdf23f1bd8d45449aad4bf92351b6312aebfbf910053a521c7e23f1d0d1bf28fbbeb3f9f786e293156e33f6fdb4267299feb3f07f153391592e23ff18b8028ba8a873f8511ec5605a5ea3f0100010002000000030000000100', 1, '[]', 'feedback', 1700058571, 5);
INSERT INTO public.impressions VALUES ('\x018bd37263387cdfa711845a354ea3fd', 'ben', 'diverse', 1, '["film 19", "film 6", "film 11"]', '\x2e43db6169c2d63f73b8dd195af8c5bf0fcd3bb5291fa7bf45177ca0221ae13fc58afdc94c8ee23fe2f4abcbffaad53f01304ba0d4d7ef3f940b012b6171dd3fcc3b081e3cb1e33fdebfaecf24e9ef3f9f41f8179947c33fb63a351283e1713fc4c528a21989d53f0200020003000100030000000200000001000300', 0.35561594539926744, '[0]', 'feedback', 1700059571, 6);
INSERT INTO public.impressions VALUES ('\x018bd381a5787057a0282d8155dfef72', 'cleo', 'diverse', 1, '["film 4", "film 11", "film 6"]', '\x5b3ac1ec7b96de3f1f999357856ad53f6b2cac1a4c6fc4bfc225af5d1d04e53f58f3003ca8e5e53fa53ddc2ad6e1e53f6fdb4267299feb3fc543a4a3106fab3f69804aa3207dec3f80dab62a26f1e33f9caf85b6103aaa3fdebfaecf24e9ef3f010003000200000000000100030000000200', 0.652631672858334, '[1]', 'feedback', 1700060571, 5);
INSERT INTO public.impressions VALUES ('\x018bd381a57870f981352fe6e4e6ed77', 'ana', 'diverse', 1, '["film 4", "film 17", "film 19"]', '\xa82c1afea155e83f79e61a64cdb2e2bfb792539ee86ea1bfd06dd4a88aa2dd3fa42efb1b6420f23fc771c697d4d0e03f6fdb4267299feb3f719757d2ab93a93f7052106ba721e43f9572780640abed3f01304ba0d4d7ef3f64059fa08228a13f010003000200000000000200030001000300', 0.7604532206472827, '[1]', 'feedback', 1700060571, 6);
INSERT INTO public.impressions VALUES ('\x018bd381a5787c46afa8361eeb6dee80', 'ben', 'diverse', 1, '["film 19", "Nosferatu", "film 13", "film 15", "film 9"]', '\xc64394f81dbee13f6f19a43679fc9f3f9156f7a3b2818bbf6162bb88ee2d663f47fbdfa4b1f7673fd8be88c7c054c53f3635a85e5206c83f069cf70c824aa83f0a885dc4b634833fc6662a7fed25613f01304ba0d4d7ef3f940b012b6171dd3f333333333333d33ffbdb4b59f519df3f5d58effbb71dce3f33a2eb0e4a9e803f1d079ce9ea439b3f528bd1cc77dd713fd26cb9b6ed377c3f02000200020001000200010003000200030002000300030001000300', 0.5708028566602646, NULL, NULL, NULL, NULL);
INSERT INTO public.impressions VALUES ('\x018bd381a9607701b2b3bf20a1f25203', 'ana', 'diverse', 1, '["film 17", "film 4", "film 19", "film 6"]', '\x5d088b45e7fde53f211139ba1487d33fcd35ec1431f9acbf4a43bb4868afae3f266f6d64b0a0e43f622c5802a8d4cf3fbffe06170053e03fa63f41aabcc8d33f341c030af75dd73f7052106ba721e43f9572780640abed3fccc6669f6889e13f01304ba0d4d7ef3f64059fa08228a13f4c178c959d5eab3f0fccded8bcabd73f030001000200020000000200030000000100030000000200', 0.7956969588500287, NULL, NULL, NULL, NULL);
INSERT INTO public.item_changes VALUES (1, 1, '"Metropolis"', '{"drama": 0.75, "music": 0.1}', 1700001170);
INSERT INTO public.item_changes VALUES (1, 2, '"film 4"', NULL, 1700001170);
INSERT INTO public.item_changes VALUES (2, 1, '"Nosferatu"', '{"horror": 0.9, "drama": 0.3}', 1700060571);
INSERT INTO public.item_changes VALUES (2, 2, '"film 5"', '{"comedy": 0.2}', 1700060571);
INSERT INTO public.item_changes VALUES (2, 3, '"film 7"', NULL, 1700060571);
INSERT INTO public.learners VALUES ('diverse', '{"policy": "CascadeLSB", "topics": null, "sigma": 0.2, "features": "gains", "examined": "first-click", "discount": 1.0, "window": null}');
INSERT INTO public.learners VALUES ('plain', '{"policy": "CascadeLinUCB", "topics": null, "sigma": 0.3, "features": "items", "examined": "last-click", "discount": 1.0, "window": null}');
INSERT INTO public.meta VALUES ('replay:2b8428710e29984aec2cb2454ce1f13b7ed65695704e22622a7f1eabe8d1ee22', '4');
INSERT INTO public.meta VALUES ('running', '{"diverse": {"policy": "CascadeLSB", "K": 3, "sigma": 0.2, "examined": "first-click", "share": 1.0}}');
INSERT INTO public.meta VALUES ('timed_out_until', '018bd02e30d000000000000000000000');
INSERT INTO public.meta VALUES ('version', '1');
INSERT INTO public.meta VALUES ('id', '1e6f8deec8eb7b8943ae164140436615');
INSERT INTO public.statistics VALUES ('Zoë 李', 'diverse', 0, 3, 3, '\x863be6fe95a8eb3f234597d6b441f03f57cae6f5c781ef3f103d3bcdf733fc3f357f83cec5fd41406f811bc20e0f334059c23243cbe94240bca4a5984f4e1b4026c5fdc66b8a35406a7841609dc341401346581de1952a4045730a6c34cf3140e6e635587d8730409e416751c8383b40');
INSERT INTO public.statistics VALUES ('ana', 'diverse', 1, 6, 6, '\xe2e946ec70a2034091b76c9eabe3e53ffa4e51883891eb3f9572780640abed3f40b9b9fb18205a40cbe81bd7a9033c4058a766cd4b145240d8dc96b18d533640a15e20780e7d0b40e5096186d3463f407d8846dd69091d4029afa55189bd2b40f57d0280fd292d40d27b223a3e4f4440');
INSERT INTO public.statistics VALUES ('ana', 'plain', 0, 1, 1, '\xad799309d122e53f94a530498dceed3fb8c6767d3d85ca3f007633ecb229e43fd08a4256ac631740861d7ce7f8571b4064989a5cd24725403f7035812f54f83f9116c98c9e27014042648a8cb5a1f73fc3f62e70247f1240b4854858b0151a401ac7b28a6f35f73f55ad2d1922a51540');
INSERT INTO public.statistics VALUES ('ben', 'diverse', 1, 6, 8, '\x000000000000000001304ba0d4d7ff3f00000000000000005d2bab6d49e6e43f1c4f2f4623de5040920c8d2a294b434039322a51b7c85c40d433bfe0de173240bb984513ab83314088fb402c86394f40931a05b5ba6718407c8334012f1e3e4000000000000000004df676cd0d8c3a40');
INSERT INTO public.statistics VALUES ('ben', 'plain', 0, 1, 1, '\xad799309d122e53f90a207fbee0afb3f800ea4ece85ef13f81c4ff59e76fe73fd08a4256ac631740861d7ce7f8571b40408f070d450931403f7035812f54f83fa7bd5ad9971923403903123b7c1a2440c3f62e70247f1240b9797119f4881d403481e0cf1f9803408d079856401c1640');
INSERT INTO public.statistics VALUES ('cleo', 'diverse', 1, 5, 5, '\xea92b0a43f61f73f196e40397bb7034028f2037544becd3f80dab62a26f1f33f540b12ab63355240178f55535eb53f40be1c26154ea757408e81609ec9793840a15e20780e7d0b40b8d65653181f4740d20d5a4c508c2d40a1c302daaa1b42400000000000000000f45cbd003cd33b40');
INSERT INTO public.statistics VALUES ('cleo', 'plain', 0, 1, 3, '\x555a1cb904dcee3f9201bf734af5e33f00000000000000000000000000000000f4716816362e3040d66ee948a4092b401d6cf3d4bc5b35403f7035812f54f83fa7bd5ad9971923403903123b7c1a2440c3f62e70247f1240b9797119f4881d403481e0cf1f9803408d079856401c1640');
INSERT INTO public.statistics VALUES ('dev', 'diverse', 0, 3, 3, '\x826a33221829f73f2ac07d26c78afb3fb8c6767d3d85ca3f007633ecb229e43f88689220e8534940ea1f698ff04c414075a8a52c7fb64a40a15e20780e7d0b4026c5fdc66b8a354038c92261da613540c78e0ebe7979254045730a6c34cf314088054912b6771740391bffd8692f3340');
INSERT INTO public.statistics VALUES ('eva', 'diverse', 1, 1, 1, '\x00000000000000009600d730af76ec3f0000000000000000880122d31de6d63fd6ad7d8d7fa03340000000000000000064a9196a9bc7344000000000000000000000000000000000000000000000f03f0000000000000000f78f6f8650d31f400000000000000000045ed5d93ecd1040');
INSERT INTO public.statistics VALUES ('finn', 'diverse', 1, 2, 2, '\x6fdb4267299feb3f00000000000000000000000000000000000000000000000046bfaa53accd3340951c119ccb6ef43f1cd0029e771f284000000000000000000000000000000000000000000000f03f000000000000000000000000000000000000000000000000000000000000f03f');
INSERT INTO public.topic_sets VALUES (0, '["crime", "comedy", "drama", "music"]');
INSERT INTO public.topic_sets VALUES (1, '["comedy", "crime", "drama", "horror"]');
ALTER TABLE ONLY public.catalogs
    ADD CONSTRAINT catalogs_pkey PRIMARY KEY (epoch);
ALTER TABLE ONLY public.counters
    ADD CONSTRAINT counters_pkey PRIMARY KEY (hour, learner, worker, name);
ALTER TABLE ONLY public.impressions
    ADD CONSTRAINT impressions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.item_changes
    ADD CONSTRAINT item_changes_pkey PRIMARY KEY (epoch, seq);
ALTER TABLE ONLY public.learners
    ADD CONSTRAINT learners_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.statistics
    ADD CONSTRAINT statistics_pkey PRIMARY KEY ("user", learner);
ALTER TABLE ONLY public.topic_sets
    ADD CONSTRAINT topic_sets_pkey PRIMARY KEY (number);
CREATE INDEX impressions_of_user ON public.impressions USING btree ("user", id);
