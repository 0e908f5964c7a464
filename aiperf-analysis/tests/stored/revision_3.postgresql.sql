SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.aiperf_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.bundle (
    number bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    path text NOT NULL COLLATE pg_catalog."C",
    created text NOT NULL COLLATE pg_catalog."C",
    created_s double precision NOT NULL,
    ingested_s double precision NOT NULL,
    complete boolean NOT NULL,
    exit_code bigint,
    git text COLLATE pg_catalog."C",
    commit_time text COLLATE pg_catalog."C",
    tier text COLLATE pg_catalog."C",
    policy text COLLATE pg_catalog."C",
    schema_version bigint NOT NULL,
    machine text NOT NULL COLLATE pg_catalog."C",
    software text NOT NULL COLLATE pg_catalog."C",
    targets bigint NOT NULL,
    rows bigint NOT NULL
);
CREATE SEQUENCE public.bundle_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.bundle_number_seq OWNED BY public.bundle.number;
CREATE TABLE public.ceiling (
    bundle bigint NOT NULL,
    device text NOT NULL COLLATE pg_catalog."C",
    figure text NOT NULL COLLATE pg_catalog."C",
    value double precision NOT NULL
);
CREATE TABLE public.document (
    target bigint NOT NULL,
    data bytea NOT NULL
);
CREATE TABLE public.finding (
    target bigint NOT NULL,
    "row" text NOT NULL COLLATE pg_catalog."C",
    "position" bigint NOT NULL,
    issue text NOT NULL COLLATE pg_catalog."C",
    severity text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.label (
    bundle bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.load (
    id bigint NOT NULL,
    bundle bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    created text NOT NULL COLLATE pg_catalog."C",
    mode text NOT NULL COLLATE pg_catalog."C",
    origin text NOT NULL COLLATE pg_catalog."C",
    complete boolean NOT NULL,
    met double precision,
    capacity_per_s double precision,
    capacity_per_s_low double precision,
    capacity_per_s_high double precision,
    knee_per_s double precision,
    knee_per_s_low double precision,
    knee_per_s_high double precision,
    data bytea NOT NULL
);
CREATE SEQUENCE public.load_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.load_id_seq OWNED BY public.load.id;
CREATE TABLE public.load_point (
    load bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    "position" bigint NOT NULL,
    bundle bigint NOT NULL,
    created_s double precision NOT NULL,
    started text NOT NULL COLLATE pg_catalog."C",
    complete boolean NOT NULL,
    trusted boolean NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    reasons text COLLATE pg_catalog."C",
    url text NOT NULL COLLATE pg_catalog."C",
    endpoint text NOT NULL COLLATE pg_catalog."C",
    model text NOT NULL COLLATE pg_catalog."C",
    arrivals text NOT NULL COLLATE pg_catalog."C",
    rate_per_s double precision,
    burstiness double precision,
    clients bigint,
    input_low bigint NOT NULL,
    input_high bigint NOT NULL,
    output_low bigint NOT NULL,
    output_high bigint NOT NULL,
    limit_ttft_s double precision,
    limit_tpot_s double precision,
    limit_e2e_s double precision,
    limit_gap_s double precision,
    requests bigint NOT NULL,
    outcomes text NOT NULL COLLATE pg_catalog."C",
    counted bigint NOT NULL,
    counted_outcomes text NOT NULL COLLATE pg_catalog."C",
    offered_per_s double precision NOT NULL,
    lateness_p99_s double precision,
    lateness_limit_s double precision,
    good_tokens_per_s double precision,
    input_tokens_per_s double precision,
    output_tokens_per_s double precision,
    in_flight double precision,
    residence_s double precision,
    queued_p99_s double precision,
    goodput_per_s double precision,
    goodput_per_s_low double precision,
    goodput_per_s_high double precision,
    goodput_share double precision,
    goodput_share_low double precision,
    goodput_share_high double precision,
    user_tokens_per_s double precision,
    user_tokens_per_s_low double precision,
    user_tokens_per_s_high double precision,
    ttft_s_p50 double precision,
    ttft_s_p50_low double precision,
    ttft_s_p50_high double precision,
    ttft_s_p90 double precision,
    ttft_s_p90_low double precision,
    ttft_s_p90_high double precision,
    ttft_s_p95 double precision,
    ttft_s_p95_low double precision,
    ttft_s_p95_high double precision,
    ttft_s_p99 double precision,
    ttft_s_p99_low double precision,
    ttft_s_p99_high double precision,
    ttft_s_p999 double precision,
    ttft_s_p999_low double precision,
    ttft_s_p999_high double precision,
    itl_s_p50 double precision,
    itl_s_p50_low double precision,
    itl_s_p50_high double precision,
    itl_s_p90 double precision,
    itl_s_p90_low double precision,
    itl_s_p90_high double precision,
    itl_s_p95 double precision,
    itl_s_p95_low double precision,
    itl_s_p95_high double precision,
    itl_s_p99 double precision,
    itl_s_p99_low double precision,
    itl_s_p99_high double precision,
    itl_s_p999 double precision,
    itl_s_p999_low double precision,
    itl_s_p999_high double precision,
    tpot_s_p50 double precision,
    tpot_s_p50_low double precision,
    tpot_s_p50_high double precision,
    tpot_s_p90 double precision,
    tpot_s_p90_low double precision,
    tpot_s_p90_high double precision,
    tpot_s_p95 double precision,
    tpot_s_p95_low double precision,
    tpot_s_p95_high double precision,
    tpot_s_p99 double precision,
    tpot_s_p99_low double precision,
    tpot_s_p99_high double precision,
    tpot_s_p999 double precision,
    tpot_s_p999_low double precision,
    tpot_s_p999_high double precision,
    e2e_s_p50 double precision,
    e2e_s_p50_low double precision,
    e2e_s_p50_high double precision,
    e2e_s_p90 double precision,
    e2e_s_p90_low double precision,
    e2e_s_p90_high double precision,
    e2e_s_p95 double precision,
    e2e_s_p95_low double precision,
    e2e_s_p95_high double precision,
    e2e_s_p99 double precision,
    e2e_s_p99_low double precision,
    e2e_s_p99_high double precision,
    e2e_s_p999 double precision,
    e2e_s_p999_low double precision,
    e2e_s_p999_high double precision
);
CREATE TABLE public.machine (
    id text NOT NULL COLLATE pg_catalog."C",
    hostname text NOT NULL COLLATE pg_catalog."C",
    system text NOT NULL COLLATE pg_catalog."C",
    cpu text NOT NULL COLLATE pg_catalog."C",
    cores bigint NOT NULL,
    memory_bytes double precision,
    gpus text NOT NULL COLLATE pg_catalog."C",
    driver text COLLATE pg_catalog."C",
    hypervisor text COLLATE pg_catalog."C"
);
CREATE TABLE public.manifest (
    bundle bigint NOT NULL,
    data bytea NOT NULL
);
CREATE TABLE public.newest (
    name text NOT NULL COLLATE pg_catalog."C",
    hardware text NOT NULL COLLATE pg_catalog."C",
    device text NOT NULL COLLATE pg_catalog."C",
    params_hash text NOT NULL COLLATE pg_catalog."C",
    target bigint NOT NULL,
    created_s double precision NOT NULL,
    bundle_name text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public."row" (
    target bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    "position" bigint NOT NULL,
    series bigint NOT NULL,
    bundle bigint NOT NULL,
    created_s double precision NOT NULL,
    role text NOT NULL COLLATE pg_catalog."C",
    kind text COLLATE pg_catalog."C",
    verdict text NOT NULL COLLATE pg_catalog."C",
    reason text COLLATE pg_catalog."C",
    builds_on text COLLATE pg_catalog."C",
    mechanisms text COLLATE pg_catalog."C",
    source text COLLATE pg_catalog."C",
    time_s double precision,
    time_s_low double precision,
    time_s_high double precision,
    wall_s double precision,
    wall_s_low double precision,
    wall_s_high double precision,
    speedup double precision,
    speedup_low double precision,
    speedup_high double precision,
    step_speedup double precision,
    step_speedup_low double precision,
    step_speedup_high double precision,
    isolated_s double precision,
    isolated_s_low double precision,
    isolated_s_high double precision,
    memory_gain double precision,
    bytes_per_s double precision,
    flop_per_s double precision,
    wire_bytes_per_s double precision,
    disk_bytes_per_s double precision,
    prepare_s double precision,
    bound text COLLATE pg_catalog."C",
    light_fraction double precision,
    peak_bytes double precision,
    joules double precision,
    net_joules double precision,
    quality_metric text COLLATE pg_catalog."C",
    quality double precision,
    beside text COLLATE pg_catalog."C"
);
CREATE TABLE public.series (
    id bigint NOT NULL,
    digest text NOT NULL COLLATE pg_catalog."C",
    target text NOT NULL COLLATE pg_catalog."C",
    implementation text NOT NULL COLLATE pg_catalog."C",
    hardware text NOT NULL COLLATE pg_catalog."C",
    device text NOT NULL COLLATE pg_catalog."C",
    params_hash text NOT NULL COLLATE pg_catalog."C",
    params text NOT NULL COLLATE pg_catalog."C",
    clock text NOT NULL COLLATE pg_catalog."C",
    cache text NOT NULL COLLATE pg_catalog."C",
    "precision" text NOT NULL COLLATE pg_catalog."C"
);
CREATE SEQUENCE public.series_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.series_id_seq OWNED BY public.series.id;
CREATE TABLE public.sketch (
    target bigint NOT NULL,
    "row" text NOT NULL COLLATE pg_catalog."C",
    samples bigint NOT NULL,
    data bytea NOT NULL
);
CREATE TABLE public.software (
    id text NOT NULL COLLATE pg_catalog."C",
    aiperf text NOT NULL COLLATE pg_catalog."C",
    python text NOT NULL COLLATE pg_catalog."C",
    packages text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.target (
    id bigint NOT NULL,
    bundle bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    device text NOT NULL COLLATE pg_catalog."C",
    hardware text NOT NULL COLLATE pg_catalog."C",
    params text NOT NULL COLLATE pg_catalog."C",
    params_hash text NOT NULL COLLATE pg_catalog."C",
    goal text NOT NULL COLLATE pg_catalog."C",
    clock text NOT NULL COLLATE pg_catalog."C",
    cache text NOT NULL COLLATE pg_catalog."C",
    "precision" text NOT NULL COLLATE pg_catalog."C",
    size text NOT NULL COLLATE pg_catalog."C",
    bytes_read double precision,
    bytes_written double precision,
    flops double precision,
    tokens double precision,
    wire_bytes double precision,
    world_size bigint NOT NULL,
    nodes bigint NOT NULL,
    floor double precision NOT NULL,
    tier text NOT NULL COLLATE pg_catalog."C",
    rounds bigint NOT NULL,
    complete boolean NOT NULL,
    no_gain text COLLATE pg_catalog."C",
    created_s double precision NOT NULL
);
CREATE SEQUENCE public.target_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.target_id_seq OWNED BY public.target.id;
CREATE TABLE public.tombstone (
    bundle bigint NOT NULL,
    pruned_s double precision NOT NULL,
    rule text NOT NULL COLLATE pg_catalog."C"
);
ALTER TABLE ONLY public.bundle ALTER COLUMN number SET DEFAULT nextval('public.bundle_number_seq'::regclass);
ALTER TABLE ONLY public.load ALTER COLUMN id SET DEFAULT nextval('public.load_id_seq'::regclass);
ALTER TABLE ONLY public.series ALTER COLUMN id SET DEFAULT nextval('public.series_id_seq'::regclass);
ALTER TABLE ONLY public.target ALTER COLUMN id SET DEFAULT nextval('public.target_id_seq'::regclass);
INSERT INTO public.aiperf_version VALUES ('3');
INSERT INTO public.bundle VALUES (1, '4d2c13651e9770219fdeba0f4600ac284eb2bf2f389f23859217eed8a039e3cd', 'run0', '/tmp/tmpb2qjqu42/postgresql/run0', '2026-11-20T10:00:00+00:00', 1795168800, 1795783645.2643476, true, 3, '0123456789abcdef0123456789abcdef01234567-dirty', NULL, NULL, NULL, 5, '88622b7860a3a9422474c9045c8e120d2fe19022addb0aaf6648c0f3155d38d4', 'e94ec1dc5e46a7296d8c7454e5a77526bc097398dfc21a2b9dd21593fb1922d8', 1, 3);
INSERT INTO public.bundle VALUES (2, '19326dda4af0cd802633797298bde263e174b85be84f8dce8a993665e3b82c09', 'run1', '/tmp/tmpb2qjqu42/postgresql/run1', '2026-11-21T10:00:00+00:00', 1795255200, 1795783645.3572426, true, 3, '0123456789abcdef0123456789abcdef01234567-dirty', NULL, NULL, NULL, 5, '88622b7860a3a9422474c9045c8e120d2fe19022addb0aaf6648c0f3155d38d4', 'e94ec1dc5e46a7296d8c7454e5a77526bc097398dfc21a2b9dd21593fb1922d8', 1, 3);
INSERT INTO public.bundle VALUES (3, '68d50ac03d3ec2daa20195473359b517a32ee3a0cef1cfda19f9038861a94691', 'run2', '/tmp/tmpb2qjqu42/postgresql/run2', '2026-11-22T10:00:00+00:00', 1795341600, 1795783645.3788996, true, 3, '0123456789abcdef0123456789abcdef01234567-dirty', NULL, NULL, NULL, 5, '88622b7860a3a9422474c9045c8e120d2fe19022addb0aaf6648c0f3155d38d4', 'e94ec1dc5e46a7296d8c7454e5a77526bc097398dfc21a2b9dd21593fb1922d8', 1, 3);
INSERT INTO public.bundle VALUES (4, '2a6ea831832502d072be11430c6dcea9e0fe3d11c13ad2df625dcab1e3958d92', 'load', '/tmp/tmpb2qjqu42/postgresql/load', '2026-11-22T10:00:00+00:00', 1795341600, 1795783645.4106247, true, 0, '0123456789abcdef0123456789abcdef01234567-dirty', NULL, NULL, NULL, 5, '88622b7860a3a9422474c9045c8e120d2fe19022addb0aaf6648c0f3155d38d4', 'e94ec1dc5e46a7296d8c7454e5a77526bc097398dfc21a2b9dd21593fb1922d8', 0, 0);
INSERT INTO public.bundle VALUES (5, '4e4dd7cb461064f153413a57cb4cf40ba7eb4784e42a11b5c99ce1b516bf42eb', 'fleet', '/tmp/tmpb2qjqu42/postgresql/fleet', '2026-11-22T10:00:00+00:00', 1795341600, 1795783645.4402735, true, 1, '0123456789abcdef0123456789abcdef01234567-dirty', NULL, NULL, NULL, 5, '88622b7860a3a9422474c9045c8e120d2fe19022addb0aaf6648c0f3155d38d4', 'e94ec1dc5e46a7296d8c7454e5a77526bc097398dfc21a2b9dd21593fb1922d8', 0, 0);
INSERT INTO public.ceiling VALUES (1, 'cuda', 'copy_bytes_per_s', 4340000000000);
INSERT INTO public.ceiling VALUES (1, 'cuda', 'read_bytes_per_s', 4500000000000);
INSERT INTO public.ceiling VALUES (1, 'cuda', 'write_bytes_per_s', 4400000000000);
INSERT INTO public.ceiling VALUES (1, 'cuda', 'flop_per_s.fp32', 59000000000000);
INSERT INTO public.ceiling VALUES (2, 'cuda', 'copy_bytes_per_s', 4340000000000);
INSERT INTO public.ceiling VALUES (2, 'cuda', 'read_bytes_per_s', 4500000000000);
INSERT INTO public.ceiling VALUES (2, 'cuda', 'write_bytes_per_s', 4400000000000);
INSERT INTO public.ceiling VALUES (2, 'cuda', 'flop_per_s.fp32', 59000000000000);
INSERT INTO public.ceiling VALUES (3, 'cuda', 'copy_bytes_per_s', 4340000000000);
INSERT INTO public.ceiling VALUES (3, 'cuda', 'read_bytes_per_s', 4500000000000);
INSERT INTO public.ceiling VALUES (3, 'cuda', 'write_bytes_per_s', 4400000000000);
INSERT INTO public.ceiling VALUES (3, 'cuda', 'flop_per_s.fp32', 59000000000000);
INSERT INTO public.ceiling VALUES (4, 'cuda', 'copy_bytes_per_s', 4340000000000);
INSERT INTO public.ceiling VALUES (4, 'cuda', 'read_bytes_per_s', 4500000000000);
INSERT INTO public.ceiling VALUES (4, 'cuda', 'write_bytes_per_s', 4400000000000);
INSERT INTO public.ceiling VALUES (4, 'cuda', 'flop_per_s.fp32', 59000000000000);
INSERT INTO public.ceiling VALUES (5, 'cuda', 'copy_bytes_per_s', 4340000000000);
INSERT INTO public.ceiling VALUES (5, 'cuda', 'read_bytes_per_s', 4500000000000);
INSERT INTO public.ceiling VALUES (5, 'cuda', 'write_bytes_per_s', 4400000000000);
INSERT INTO public.ceiling VALUES (5, 'cuda', 'flop_per_s.fp32', 59000000000000);
INSERT INTO public.document VALUES (1, '\x789ced594b8fe33612bef7af1074dac5f608a444bdfa3640668160373924d95c0681404b94c56d597444aa9d9e86ff7b8a0f3d6c793a760609b2d8f6c1b08b5545b25855df27f1e5cef37c45fb2d53fe83e7970d4a831ddb89feb9a065c9a4f4efb5861c763bda3f6b956f19df361b31f4d2e39d47bd03edf79e6cc4d0569e1243d978dd8986f566dd6c056db50fb967acb2a2b215e5a39655ec8997cc0969d930b31ed13a3d37ac654345ad6cdf8b4dcb76207c81bf7a99fcd3a98a56a23ddd49ade377f01d2619896212274737be79564c163da3158c62944629c159484e460f3d578a759714ea56ecb5f7384ab214e5381ca7ed59c92517dac8aff75138ae478996f5b4b37bd970f58efd424b358ef26e3fa8c2cc7a693631a857c79578649d1e410172a203efd964b0108bbead0a1730ec849da8ac5ff7bfe2f2d184e6820333e602b31c8651135abf17072dfa68d4ed01e929e8ceec5caa9e572e09cc400f713121a192b5bc63f3c885a337f247dee9330397fc69a17e68749e7643db4ea2cdc0db4a16e6304e0676ac6c68c7a549908f3fcd8b613f0f10b733299c2964132be4ca3f93b0199d63c7856b93f70fd3d6b503461f3f7b784683b6500f54b1ea7535581aeb9f165a212629c9a284640bad4648559ccd49b2384d9ccabcd8ff0ed596ed58a74c9d48badbb7563fbcff7cc69a2492ca1efbecebe781b65cadce800e1557e7c2ba1d64732e940a32eef934f4a5e8c01cca69157bd6b17ebb9aad13c5e581796fd124e352b426e66eb0383b776871bb616fa528c0714210cee7cfbdde3f8a431c91d9a615dbd50e6a48eb6abd5255888d3dced30c82983faef2d22e71e54532d39e96f335ac7c348a1fa78c9853d1ec5a0ee64859f7c47bd1e9e30fe097d2e7f789ea6017e289f58d6e8df74bcb1de002dd1a5bd570e9eda05dc3d6bc7ee8a4377415eb01179ae73dec0942db7b7ffbd78fdffcfdd4059474c56c4abdf84facab44afdd81a27f3c51840554bc34e0f4f5b73fbefff7d75f9d39aa6b56aa312ba691a3fbf5d3224f2ade6dcfe3b670ffcd87f7dfffe7bb0f5f2d5a12a372dd33e014b527f94744563210dbe2d159d7e915ff99a17f257e9780da0c28beb32d11bcd1d66c7caa877b5d08875182f3348df30c840d3084492fccd1a2a08e8bb26bdbcb8ed333c7210251ba721c455a79edd8d08f617fa1ef40915f1e739c684bf92a1f2c4580889bb5128c739c60e8c5591264249fbb8c660a931a46619ee62802ca90042986a5cedb9e007bd23e99cf00ef2be3660785a88b1662611b3a90310b9523195b9c9a0e1522790cb2ba87be6e290b487392933489e01ba5619e24c70bfd7259766e7c85f425903e26cb4b58ff447b4e3b7535d49fecd3e2bc2f20fb7198bdd311f13471f04c2f959a9a36308f21a8b3a7372af0460546e75f4c05a06bc589c37f9440c379c3ffff5dfcffe7fbef7ff8f0dd1bfa5f8cdeade86faae104a441822212e15390062909e324cbaf867fb048569e4914e1b5e70c1ef62f799e317e769d06791e4e6ee15f92a190cc2e3328f63807fae23ed971d9a4be9c3744610ebc06a7d0e1c328003673993764618448981388240af228c9e670fd3568431a67591c859906a090e4bf9b351c348afe2184a11643efe97d484f35cc3321d12faa6ab3710f820372fdd2e3de93027e52e5d5ec00524d24a457f3b635863628de9eefcfde572c29c625f6730dd3f0e5aec8907f997040ecc319b2de18c7ff15e3c85034310e84df18c71be378631c53359cf202006b40208cdc6745105084a198ae601c283e671c406532b27698622009af138d2c48523c79837f84e459b2789938338e244f110e7f9b71ccce7180b2f9dd88fe87a033cf3eb5240de3c5dbcb73ccb886aac4292610ec145697040436f019ae928799e67c40f048807182ff6a5c05c8548813c02de08f24cb7f93aadcb9fcf4450f896f617abcc63841fa91be18d8ae9982ce68a4b0b672ffec3b276345ced7570be843e33d8b64cab5ff3070a8b1c404148c773fc61a0ad8c63e18ef707414ec46a260bc9c8245415f6fec9ba8c9abc143e7d421b9ee56bce6a5ed21567d742295d8efc7f9e67b21d731a413e74e2c8032f54ee6b8ad050ce9dcc677e3c591640644920c922c8c08ca118993189338b5c38af6ca68f8210a937718bf0bf10f983c84f14384fe81d00342f67e70aa67ec4267d76c6dc770791b4d3f940739e588259ca43e07a50b4af5033332c5cd8903c1e0d0968ca8d729375d97d98635f5d993a4d57561ba9e06f085b2042a6a1ae3a4c87e61e5a06c878480b9fb50201467656948934597177f2f5a5e9a1e0eb1e92ada9b6413756df1590742a7a02c4a08885e574d5bc9ee67709f64ee004079470bd889bbc08cadd8e8164080d99cb3d35bbed5cd71b0d9e41b822909bafda7f17e5336141ef70c9773a378837015c2efbaac318bf1a6aae22863218e71b949284debb8aa4346f39a92bc8e50cea0a765f5749f5a8a76d81966363d43f4ae17bcf8950268d2b30dbc53998ecad04d4470aef78dc39aab0d7403be45df6298c396c906b282aa842cac7ce95f84a3c90466d157c9b341b7b428f7c36d061b68878f4cddb8b0865795217f0b938d10ed67b76f187e7583c198a85707f809b2a083c6f05cc80337c97e8b35efbecc1e9e178552ed4d5bdcb0edd0dd765ab493f01ceabaf9f5c7054f8e2d5f5bbd3e97eb94b71955a25b25f9eb16e2705d0c26003ede1def7e054cec567d');
INSERT INTO public.document VALUES (2, '\x789ced594b8fe33612bef7af1074dac5f608a444bdfa3640668160373924d95c0681404b94c56d597444aa9d9e86ff7b8a0f3d6c793a760609b2d8f6c1b08b5545b25855df27f1e5cef37c45fb2d53fe83e7970d4a831ddb89feb9a065c9a4f4efb5861c763bda3f6b956f19df361b31f4d2e39d47bd03edf79e6cc4d0569e1243d978dd8986f566dd6c056db50fb967acb2a2b215e5a39655ec8997cc0969d930b31ed13a3d37ac654345ad6cdf8b4dcb76207c81bf7a99fcd3a98a56a23ddd49ade377f01d2619896212274737be79564c163da3158c62944629c159484e460f3d578a759714ea56ecb5f7384ab214e5381ca7ed59c92517dac8aff75138ae478996f5b4b37bd970f58efd424b358ef26e3fa8c2cc7a693631a857c79578649d1e410172a203efd964b0108bbead0a1730ec849da8ac5ff7bfe2f2d184e6820333e602b31c8651135abf17072dfa68d4ed01e929e8ceec5caa9e572e09cc400f713121a192b5bc63f3c885a337f247dee9330397fc69a17e68749e7643db4ea2cdc0db4a16e6304e0676ac6c68c7a549908f3fcd8b613f0f10b733299c2964132be4ca3f93b0199d63c7856b93f70fd3d6b503461f3f7b784683b6500f54b1ea7535581aeb9f165a212629c9a284640bad4648559ccd49b2384d9ccabcd8ff0ed596ed58a74c9d48badbb7563fbcff7cc69a2492ca1efbecebe781b65cadce800e1557e7c2ba1d64732e940a32eef934f4a5e8c01cca69157bd6b17ebb9aad13c5e581796fd124e352b426e66eb0383b776871bb616fa528c0714210cee7cfbdde3f8a431c91d9a615dbd50e6a48eb6abd5255888d3dced30c82983faef2d22e71e54532d39e96f335ac7c348a1fa78c9853d1ec5a0ee64859f7c47bd1e9e30fe097d2e7f789ea6017e289f58d6e8df74bcb1de002dd1a5bd570e9eda05dc3d6bc7ee8a4377415eb01179ae73dec0942db7b7ffbd78fdffcfdd4059474c56c4abdf84facab44afdd81a27f3c51840554bc34e0f4f5b73fbefff7d75f9d39aa6b56aa312ba691a3fbf5d3224f2ade6dcfe3b670ffcd87f7dfffe7bb0f5f2d5a12a372dd33e014b527f94744563210dbe2d159d7e915ff99a17f257e9780da0c28beb32d11bcd1d66c7caa877b5d08875182f3348df30c840d3084492fccd1a2a08e8bb26bdbcb8ed333c7210251ba721c455a79edd8d08f617fa1ef40915f1e739c684bf92a1f2c4580889bb5128c739c60e8c5591264249fbb8c660a931a46619ee62802ca90042986a5cedb9e007bd23e99cf00ef2be3660785a88b1662611b3a90310b9523195b9c9a0e1522790cb2ba87be6e290b487392933489e01ba5619e24c70bfd7259766e7c85f425903e26cb4b58ff447b4e3b7535d49fecd3e2bc2f20fb7198bdd311f13471f04c2f959a9a36308f21a8b3a7372af0460546e75f4c05a06bc589c37f9440c379c3ffff5dfcffe7fbef7ff8f0dd1bfa5f8cdeade86faae104a441822212e15390062909e324cbaf867fb048569e4914e1b5e70c1ef62f799e317e769d06791e4e6ee15f92a190cc2e3328f63807fae23ed971d9a4be9c3744610ebc06a7d0e1c328003673993764618448981388240af228c9e670fd3568431a67591c859906a090e4bf9b351c348afe2184a11643efe97d484f35cc3321d12faa6ab3710f820372fdd2e3de93027e52e5d5ec00524d24a457f3b635863628de9eefcfde572c29c625f6730dd3f0e5aec8907f997040ecc319b2de18c7ff15e3c85034310e84df18c71be378631c53359cf202006b40208cdc6745105084a198ae601c283e671c406532b27698622009af138d2c48523c79837f84e459b2789938338e244f110e7f9b71ccce7180b2f9dd88fe87a033cf3eb5240de3c5dbcb73ccb886aac4292610ec145697040436f019ae928799e67c40f048807182ff6a5c05c8548813c02de08f24cb7f93aadcb9fcf4450f896f617abcc63841fa91be18d8ae9982ce68a4b0b672ffec3b276345ced7570be843e33d8b64cab5ff3070a8b1c404148c773fc61a0ad8c63e18ef707414ec46a260bc9c8245415f6fec9ba8c9abc143e7d421b9ee56bce6a5ed21567d742295d8efc7f9e67b21d731a413e74e2c8032f54ee6b8ad050ce9dcc677e3c591640644920c922c8c08ca118993189338b5c38af6ca68f8210a937718bf0bf10f983c84f14384fe81d00342f67e70aa67ec4267d76c6dc770791b4d3f940739e588259ca43e07a50b4af5033332c5cd8903c1e0d0968ca8d729375d97d98635f5d993a4d57561ba9e06f085b2042a6a1ae3a4c87e61e5a06c878480b9fb50201467656948934597177f2f5a5e9a1e0eb1e92ada9b6413756df1590742a7a02c4a08885e574d5bc9ee67709f64ee004079470bd889bbc08cadd8e8164080d99cb3d35bbed5cd71b0d9e41b822909bafda7f17e5336141ef70c9773a378837015c2efbaac318bf1a6aae22863218e71b949284debb8aa4346f39a92bc8e50cea0a765f5749f5a8a76d81966363d43f4ae17bcf8950268d2b30dbc53998ecad04d4470aef78dc39aab0d7403be45df6298c396c906b282aa842cac7ce95f84a3c90466d157c9b341b7b428f7c36d061b68878f4cddb8b0865795217f0b938d10ed67b76f187e7583c198a85707f809b2a083c6f05cc80337c97e8b35efbecc1e9e178552ed4d5bdcb0edd0dd765ab493f01ceabaf9f5c7054f8e2d5f5bbd3e97eb94b71955a25b25f9eb16e2705d0c26003ede1def7e054cec567d');
INSERT INTO public.document VALUES (3, '\x789ced594b8fe33612bef7af1074dac5f608a444bdfa3640668160373924d95c0681414b94c56d595444aa9d9e86ff7b8a0f3d6c793a760609b2d8f6c1b0eb45b258acef93f872e779bea2fd8e29ffc1f38b1aa581ea692b3b21997fafb572d8ef69ffacd5df32beabb762e8a5c75b8f7a07da779eacc5d0949e1243517bed89c59eed05789a303b411b1d43768c95565434a278d4b2923df1c20d57d0a266662ea271764ead654349adacebc5b6617b10bec05f3d4dfee9d4441bd19eeea5b6f15bf80e938c44318993a3d36f9f15939b9ed112b418a5514a70169213eda1e74ab1f69241d5884e478fa3244b518ec371d89e155c72a19dfcaa8bc2713e4a340c926bd7b2e5ea1dfb85166ad4f2b61bd4c68c7a693431a857f54a3cb2566b50809ce8c07b36392cc4a26fca8d4b1876c2569436aefb5f72f96852732180d1b9c42cd5a035a9f57b71d0a28fc6dc6e901e82eecdcaa5ea79e98ac0287ac88b490995ace12d9b3517b6dec81f79abf70c42f2a785f9a1d675da0e4d3389b6036f4ab9319b71a2d8b3a2a62d97a6403efe344f86fd3c40decea4b0a7504d6c2357f19984c5e81a3b2e429bba7f9896ae0330faf8d9cd3316b481f340152b5f3783a9b1fe6961156292922c4a48b6b0aa85549bb3314916a789339927fbdfa1dcb13d6b95392792eebbc6da87f79faf58534452d96d9f63fd3cd086abd51ed0a1e4ea5c583583accf855241c53d9fa6be102db8c3715ae59eb5acdfad466bc5e6b2625e5b34c9b8148dc9b9536ecef61d5adc7ee8ac1405384e08c2f9fcb9d7eb4771882332fb3462b75a4105655dae67aa36626bb7f3b48220e78fabbab4535c4591ccb4a7e578352b1e8de1c7a922e65234ab9683d952d63ef15eb47afb03f8a5f4fe7da23ad91bf1c4fa5ab7c6fba5e79e494977c657d55c7a7b68d7b034af1f5ae90d6dc97ac085fab98335416a7bef6ffffaf19bbf9f8680235d325b522ffe136b4bd1eb7060e81f4f0c6102252f0c307dfded8feffffdf5576781aa8a156aac8a497374bf7e5ad449c9dbdd79de16e1bff9f0fefbff7cf7e1ab454b6254ae7b06eca28e24ff88cc4a06627b7874d5b57ac67f66ea5fc9df25a0360ac5f7b6254234da98854fe7e15e1f84c328c1799ac67906c21a18c26417e66871a08e8b63d7349703a767814304a27415388ab4f13ab0a11f4377a1efc021bfacb3dd7cb3a37c550f962240c6cd5c09c6394e30f4e22c093292cf5d463385c90ca3304f73140165488214c354e7654f803d599f8c6780f715bd59c146549b0672611b3a90310b9523195bec9a4e1522790cb2aa87be6e290b487392933489e01ba5619e24c70bfd7279ec9c7e85f405903e268b4b58ff447b4e5b7535d49facd3e2bc2fa0fa7198bdd319f13471f04c2f959a9ad6308e21a873a4372af04605c6e05f4c05a06bc589c37f9440c379c3ffff5dfcffe7fbef7ff8f0dd1bfa5fccdeade86f4ec3094883044524c2a7200d5212c649965f0dffe091ac229328c2ebc8193cec5f8a3c63fc1c3a0df23c9cc2c2bf24432199436670d8e31ce88bfb64c76593fa72de108539f01a9c42870fa300d8cc65de90851122614e209328c8a3249bd3f5d7a00d699c657114661a804292ff6ed670d028fa8710864a0cbda7d7213d5533cfa444bfa8aaccc23d480ec8f54b8f7b4f0af8499557b103483591905ec59bc638daa4781defcede572c29c625f6730dd3f0e57e9321ff32e180dc873364bd318eff2bc691a168621c08bf318e37c6f1c638a6d370ca0b00ac018130729f1541401186c37405e340f139e3002a939175c0140349789d68644192e2291afc2324cf92c5cbc4997124798a70f8db8c630e8e0394cdef46f43f049d798ea92569182fde5e9e63c63554254e318164a730bb2420b080cf70953ccc34e7038247028c13fc57e32a40a6429c006e017f2459fe9b54e5ced5a72f7a287c0bd3e335c609d28ff4c5c076c51474462385b915ddb3ef828c2772bebe5a401f1aef592453aefd8781438d2526a060bcfb31de70806dee83f10e4767c12e240ac6cb299814f4f5dabe899aa21a3c74411d92eb6ec52b5ed81e62cdc7205289ae1bc79bef855cc7904e9c3bb100cad43b99e3b61630a40b1bdf8d1747921910493228b230222847244e624ce2d4aa15ed95b1f0431426ef307e17e21f307908e38708fd03a10784ecfde0749eb14b9d9db3f51dd3e56d35fd501ed4942396b0937a1f943e50aa1f9891296e761c080687b66444bd2eb9e9bacc36aca9cf9e14ad3e17a6eb69005f184ba0a2a6314e86ec17560cca76484898bb0f054271762c0d69b2e8f2e277a2e185e9e1909bb6a4bd29365155169f75227409ca4d0109d1f3aa6823d9fd0cee93cc6d0018efe90656e22e30632b36b61b20c06caed9e92ddfc9ad71b0dde65b822909daeed378b7296b0a8f7a86c7392dde225c86f0bb2a2acc62bc2dcb38ca5888635c6c134ad32a2eab90d1bca224af229433e8675935dda516a219f686954dcf0fbdeb032f7ea90096f468036f55a63332b413099ccffad6e1ccd50ebaf9de626ff1cbe1cae40315415542165ebef42f42d1e402a3e86be4d9a15d7a14dd709bc3165ae12353374eace6656988dfc2652b44f3d9e51b765fdee03016e9d5097e822a68a1293c6fe4819b42bfc59bb75fe60fcf8a42a9e6a6256ed96e686fdb2d3858f00cea3af9f5db054f8d0d5f7bbd3e96eb92b73995a25d15f9eb1ee2705d0e26f03dde1def7e05acbb5367');
INSERT INTO public.finding VALUES (1, 'strided', 0, 'environment.virtualization_overhead', 'warning');
INSERT INTO public.finding VALUES (1, 'coalesced', 0, 'environment.virtualization_overhead', 'warning');
INSERT INTO public.finding VALUES (1, 'wide', 0, 'environment.virtualization_overhead', 'warning');
INSERT INTO public.finding VALUES (2, 'strided', 0, 'environment.virtualization_overhead', 'warning');
INSERT INTO public.finding VALUES (2, 'coalesced', 0, 'environment.virtualization_overhead', 'warning');
INSERT INTO public.finding VALUES (2, 'wide', 0, 'environment.virtualization_overhead', 'warning');
INSERT INTO public.finding VALUES (3, 'strided', 0, 'environment.virtualization_overhead', 'warning');
INSERT INTO public.finding VALUES (3, 'coalesced', 0, 'environment.virtualization_overhead', 'warning');
INSERT INTO public.finding VALUES (3, 'wide', 0, 'environment.virtualization_overhead', 'warning');
INSERT INTO public.label VALUES (1, 'branch', 'main');
INSERT INTO public.label VALUES (2, 'branch', 'main');
INSERT INTO public.label VALUES (3, 'branch', 'main');
INSERT INTO public.load VALUES (1, 4, 'chat', '2026-11-22T10:00:00+00:00', 'sweep', 'aiperf-load', true, 0.99, 20, 19.6, 20.4, NULL, NULL, NULL, '\x789ced5a5d6fdb36147df7af10f83a4795644bb6f256acc1306c48872519300c83c1cab44d449634928a9b15feefbba46899a4e5d8c9b0a4e8d4160dc87b79783f0e699eba5f069e87ee693147971eca4b3c47433953e0359133d90a8b662663040ba2dca2204a2ec2f0228a6ec3e032907fbe537f379e157e544097de1718c2c4ba9c2b30be21a4523ed2aba485e030fd871a7bda59d976bb5781c6d4f3bc22590bbb9b23ec8130398b6a96cb552b21aacb77efc268e207f03bbc9c2a180f9162ae76558995eb2a27829605972619a25a3c270b5ce7026d87e6269b92dd5b39b5165a54b598e5e5064c6132ec32aee87205d651e458cb5aecd74ebb8d7aad6bad1884aff2a0738e1ce34399e14f758ed9a38c097277ec7c851999cf2a4616f433b8b876f2196762d6040066c16ae27888f29e14f46f55f6a2ce73c36ad70d33461f70ce557b762c831e705e16b2ec0c2835ab089b498f2880994f35e3821684738d0d73594e49c3153d2118ce881eda1be6744d45b39d100ba170033f926baab2196a0c12116d8d61b4c4556bb411599d9306705e43b84018e59800b560dd06b375dd2c4dd484a06b02a5337d325cedb785ce65909c820c8792beea4c85db4147051117989d75e8b4bf663539681b62e4af9a70551a9b129269b04ce7f8f127f891a61388ecfbbb5bc9daad055f174d38a905a1e7678750d36350101e6fa00e02c55c1e4ab818feb42ba1d24237b757ef3ffc6e265d2e164411bae5916f0697c342c9a75995a6bae35080719787624feb131a2e50bc5a6ea12154331d808c36899be46939e8dc1a551ca81ac1d9a849b39d24437315c8bdd3290cf5e197c64052b8294d174b25647a00199990619a58901194e02464ec428e4cc8281d5b90a320390d99ba90631372944616e438989e01e9dba0faa835a07aa021f5a80544059c3f0e4762089cf07687640847538e37c02b6f47faedd15b8e8afccc26db2d39e8c9794d3944b54a7850c3f38a78d06ad5cc3d6a3cb5291924611498bfce88fca0f72ab0fd1e93a94da8601a9ec3a8376e7ffbc9724eff632be1681c3b0488e39710c0461da736681cbea4fd131b743272429d2467847ad0f17f7fcdbd75bb770f87d3ddb60ae834250e83e79e1e17df2aa55d4928a4857e2e01ac49f994dc6f16dbf13a8f596f1f4a389e9cf0dc87198f4eb85a415bc6d35c33ef5ae7a6857bf6b9f57903da753e0997653997ca60f7dad947a4decf5a89a4be916fd4d4e258822da412061664e80746114d8e85fe93675561ce944ee06da86162bfcc1a79e4388da7b693164227a06a9081aecf3e0d68b691087c3eaa91ce043e1dd5f0682ab4982d72f0956228b2766584d339bcfc764ac27c312e72bc6ca2b8f9e5e71fe5fb576e72777df5dbd5b51e5c7f9cddddbcffe14a0ead577f4e33d2bc80070e01ba4572d88be40eeb372992c7bd48762ad88b64b312e78ae4712f92512f927b91dc8be4d7697f2f927b91dc8be45e24bfb5481eed756094fac64d3a0afcd1cb4472e05bb78073073c7d0374eae4c8799c75eae4d451c0dd3a79e47c19f25a3a79fc55eae4a8d7c91dd66f52274f7b9dec54f07fa19317c08f234219ee94db5fef40197f807c56c45b829c851e94ccdb60ee49758a5ea8a59d7fb1ecb574afa57b2ddd6be95e4bf75abad7d24f13a0d7d25f13ed9ea9a5ff832f9c61a14962e7ba7afab27af977ce61eac8e46e319d38bafcb5c4f4f48dc4b4faa9dfc4a864744915b93085641717ed7f163f261510c77296cb36477182cc572cba078a1a1780d43538a3e2b19366fe13443b7e8fa13511aa4269da4e591af175ce968e0715a520e637766851b23596118603ed8578b6226b3c7b208c53b55b3cd80efe0151acdc8e');
INSERT INTO public.load_point VALUES (1, 'p000', 0, 4, 1795341600, '2026-11-22T10:00:00+00:00', true, true, 'STEADY', NULL, 'http://127.0.0.1:8000', 'completions', 'default', 'poisson', 20, NULL, NULL, 16, 32, 8, 8, 0.2, NULL, 0.5, NULL, 1000, '{"OK":997,"CUT":3}', 900, '{"OK":897,"CUT":3}', 20, 0.0004, 0.001, 160, 480, 160, 2, 0.1, NULL, 20, 19.6, 20.2, 1, 0.98, 1.02, 400, 392, 408, 0.01, 0.0098, 0.0102, 0.02, 0.0196, 0.0204, 0.03, 0.0294, 0.0306, 0.04, 0.0392, 0.0408, NULL, NULL, NULL, 0.002, 0.00196, 0.00204, 0.004, 0.00392, 0.00408, 0.006, 0.00588, 0.0061200000000000004, 0.008, 0.00784, 0.00816, NULL, NULL, NULL, 0.0025, 0.00245, 0.00255, 0.005, 0.0049, 0.0051, 0.0075, 0.00735, 0.00765, 0.01, 0.0098, 0.0102, NULL, NULL, NULL, 0.05, 0.049, 0.051000000000000004, 0.1, 0.098, 0.10200000000000001, 0.15000000000000002, 0.14700000000000002, 0.15300000000000002, 0.2, 0.196, 0.20400000000000001, NULL, NULL, NULL);
INSERT INTO public.load_point VALUES (1, 'p001', 1, 4, 1795341600, '2026-11-22T10:00:00+00:00', true, true, 'STEADY', NULL, 'http://127.0.0.1:8000', 'completions', 'default', 'poisson', 40, NULL, NULL, 16, 32, 8, 8, 0.2, NULL, 0.5, NULL, 1000, '{"OK":997,"CUT":3}', 900, '{"OK":897,"CUT":3}', 40, 0.0004, 0.001, 240, 960, 320, 4, 0.1, NULL, 30, 29.4, 30.3, 0.75, 0.735, 0.765, 400, 392, 408, 0.01, 0.0098, 0.0102, 0.02, 0.0196, 0.0204, 0.03, 0.0294, 0.0306, 0.04, 0.0392, 0.0408, NULL, NULL, NULL, 0.002, 0.00196, 0.00204, 0.004, 0.00392, 0.00408, 0.006, 0.00588, 0.0061200000000000004, 0.008, 0.00784, 0.00816, NULL, NULL, NULL, 0.0025, 0.00245, 0.00255, 0.005, 0.0049, 0.0051, 0.0075, 0.00735, 0.00765, 0.01, 0.0098, 0.0102, NULL, NULL, NULL, 0.05, 0.049, 0.051000000000000004, 0.1, 0.098, 0.10200000000000001, 0.15000000000000002, 0.14700000000000002, 0.15300000000000002, 0.2, 0.196, 0.20400000000000001, NULL, NULL, NULL);
INSERT INTO public.load_point VALUES (1, 'p002', 2, 4, 1795341600, '2026-11-22T10:00:00+00:00', true, false, 'STEADY', '["UNTRUSTED: the generator was late"]', 'http://127.0.0.1:8000', 'completions', 'default', 'poisson', 80, NULL, NULL, 16, 32, 8, 8, 0.2, NULL, 0.5, NULL, 1000, '{"OK":997,"CUT":3}', 900, '{"OK":897,"CUT":3}', 80, 0.0004, 0.001, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.machine VALUES ('88622b7860a3a9422474c9045c8e120d2fe19022addb0aaf6648c0f3155d38d4', 'node7', 'Debian GNU/Linux 12 (bookworm), Linux 6.18.44 x86_64', 'AMD EPYC 9654 96-Core Processor', 16, 137438953472, '[{"index":0,"name":"NVIDIA H200","uuid":"GPU-1","memory_bytes":151397597184,"capability":"9.0","mig":false}]', '570.86.15', 'KVM');
INSERT INTO public.manifest VALUES (1, '\x789c9556db6edc36107df757107a4982da0aa9bbf266d8411aa40916681da030028122a9156b495445caebb5e17fcf50d26aaf761bc3d85d9d399a19ce8df374869043652bbac2f9801cec12173be71664aaae69c301bddd10ce91d3f58dfd62258edd5ad4aa5b679431a1f58812ecae68d766ba154cd24a3e0a9e2d455d3b3f469d9da046589d8e87bde882900b0fff45f0076cff7f1b3e47eb3565a56c04309fe011805269d3d0da224ea3b888071e08f45a1b515bf85ae49236e8d3b79bf77fc8a67f40c4436f73a5ee56aaabdf9da3118c5c92b841801e92288b828d16d6f656c5e5d76bf471f1f7154aa330808f8b2bd509b4e8943da2ea6636a01af8249a802914f9da8cb81f077e92867e107b13a35d9b5235d6c6d562f8897c9710773e46b98610df4b6b04385fbe7fdd08966d6f55de0e4f680ac720910d170f20c2e75b6c13a26fdf3f5f7fbe44bf7b53402771dfcb21fa9f163717645770788090f8691ca63149821d16a32dcd6525cdda2a49dd3dddb55c025ad04a8b097c1ebe7f4c07e19dbc17c3e9c218bb09e4217440f23ce4bba5ec8e2e07db4f53b95dd822db294a34e310fd3ddca88e954351b9c49fa04e9a31dcbe6bfd9cac54fd5236db703e395c6aa0e6bd91237bd704a80187f52499ad89c640a45a251b63f1bc979591cd68e13595f634ff4fe540fd2f7d94d5c72efa27b46d885a988c6ac987d8f5cd5da3560d2aa13dd09b87378ecdd5d4a40232dc2cf5b6f758cfe9fc643329ee257bb1cca096a8eebba336c7e9519b4fcdd44e8597c1c1326b37f0033cffb9737d3b303ef82135c427a92b280071c80d4e738b4ab533e9c9295adf831f618af7e8cf33ff5e3028b96cffb5ad58dc430632058929adbf56daf455752087a9d51ecb18cc3d31b7e19e48d719ab14bbcbcac743d1aa5495d834dff60503f1aa0f62b0e3e78ead59bc6fb1a490c6d71815ed1b56be88afa834c7c26547db327be955d3d1461760ec45bf5bf19ab452aacd619abce636b4d45d76a2988e49a7ca688f45ab0a34f19e1db2765c32b20610ae0c550d5d7ce2d00383596507ef966ab50fd4526b68cf7d9053437529847901cea67b613fbd062ee3fd179429619c6479afd7472ec2a4981d1fc0e7797a17b2da1bddd989fdc0ce27e2f94118c5494a73c645f1abcfd314d777b26d87f1324df1d945da2dc534415fdc4476bab8e3920df43fbf7c5e2c3e5e6f65501b7a9ca98d105c23e8bd1453f4d69452a369374125d5a851e8eae6fa12c185face99a3320ed2a534bf72ea0b2e3bb85837cb575b89213ba6eb879676c403341353c3fcf6e7150d305b3c3bd9724a9bf39df13d8645bf3f4e8a9be7691e101ab84dfb385c66d333c931e11efc2e5841444872ce433f111eec052c8f288d8b90179ea0694183b4f0712a121c2785b7595a5e31f9cf14581286224d2212c5a1cf131e8162c27894c698f83426bef0b807b88f39a75181432e78c8a22229c2047cf2938d2958526521b4991507dc63c48f4222d238c61e490b2e728a8b20c298322f0944eee58557c08256787e12a61e8921c909c57e2a7cc6b74b4927feed41f36e6ced4c356c0cefed9866adfa8e896ddbc26b6da7ec44d86d731889b9a8c626c961c48d0b4b4d379b83a3416b4db3ed751e9e3d9ffd04277040c0');
INSERT INTO public.manifest VALUES (2, '\x789c9556db6edc36107df757087a4982da8aa8bbf266d8411aa40916681ca030028122472bd692a88a94d76bc3ffdea1a4d55eed3686b1bb3c7338339c1bf974665936152d7485fdc1b25d8738ae7d6e4026eb9a361cd1db0de1dcb2bbbe315fac7463a7865a76eb8c32064a8d28719d15edda4cb5c004adc423f06c09756dff1c75764035189db6e77ad10521171ef94edc0faef9ff6df81cadd79495a201643ee11281522addd0da20762339c4030f056aad34d406be865cd0c6faf4ede6fd1fa2e91f2ce2596f7329ef56b2abdf9d5b231839247182c07a48a22c0a365a58db1b15975fafad8f8bbfaeac340a03fcb8b8921d588b4e9a23ca6e6623aa904fa209984291aff588fb71e02769e807b13731dab52e65636c5c2d869f96ef10e2ccc728d718e27b618c20e7cb8faf1bc1b2ed8dcadb61654de11824a2e1f08022f77c8b6d42f4edc7e7ebcf97d6efde14d049dcf76288fea7c5cd05d9151c1e20247e1a87694c926087c5684b735109bd364a52674f772d968816b4523081cfc3f7cfe920bc13f7309c2e8c5d27c13c84364a9e877cb794ddd1e560fb692ab70b53643b4569cd38467f0fd7b263e550540ef127a8137a0cb7ef183f272b55bf14cd369c4f36170aa979afc5c8de35816ad0613549666bd0688c542b45a30d9ef7a2d2a2192dbca6d29ce6ffa91ca8ffa58fb2fad845ff84b60d5181cea8127c885ddfdc3572d55825b687f5e6e18d6d7235352960869ba5daf61eeb399d572693702fd88b6586b54455df1db4b9fbdd4d8fda7c6aa6762abc0c0f9619bb811fb8f39f33d7b78de3831f5243f7247585050087dce034b7a8643b939eeca2f53dfc11a6ee1efd79e6df03c392cbf6b76dc5708f19c82426a634fe1a69d357d5811ca7567b2c6338f7606ec33d91aa3356497697958f87a255292bd834df7683c678d50731d8f173c7d62cdeb758524ce36b8c8af60d2b5fc45754e863e1b2a36d99bdb45577b451051a7bd1ef165e935652b6394e93d7dcc696bacb4e14d331e95419edb16855a126deb343d68e4b5ad408e29521aba18b4f1c7a6030a3ec606f2957fb402d94c2f6dc0739d5549500fa05389bee85fdf46abc8cf737485de238c9f25ead8f5cc449313b3e80cff3f42e44b537bab313ef03339f88e70761142729cd1987e257d7d3145777a26d87f1324df1d945da2d619aa02fbe4476bab8e3820df43fbf7c5e2c3e5e6f65581b6a9ca90d005716f65eea52ebad2e85b2a6b78955526535d2babab9beb4f0427d67cf511907e952e85f39f505171d5eac9bc7575bc1901dddf5434bdbf080cdc4e430bffdf9898698299e9d6cd9a5c9f9cef81ec3a2de1f27c5c9f3340f080d9ca67d1c2eb3694d7297700f7f17ac2010929cf3d04fc0c37701cb234ae322e48507342d689016be9b42e2c649e16d1e2daf98fc7b0a2c09434893884471e8f38447a898301ea5b14b7c1a131f3cee21eebb9cd3a870430e3c6451911461823ef9c9c6143e5245014a6f15a7be17e1a680162ee3095e40be1fa7b1972639075c0089833c0973488222e10c129aa67e1485e0e789c7dc74fb28e9e09f1e35efc6d6cc54cdc6f0de8e6956b2ef186cdb16b7b59d341361b7cd7124e6508d4d92e3881b1f2c35ddbc1c6c855a6b9a6daff3f0ecf9ec5f0fe94080');
INSERT INTO public.manifest VALUES (3, '\x789c9556db6edb38107dcf57107a698b4d5452d4c5ea5b9014dda2db22c0b6051645219014657123895a918ae304f9f71d4ab27c899ddd1a862d9d399c21e7c6793c43c863aa955de1bd431ef6898fbd73070a5dd7acc901fdb1219c23afeb1bf7274a9cf8b5ac75b7ce9810d2981125d85fb1aecd4c2b8562957a9079b69475edfd1c75769259e9747a010ee20b422e82e02bc1efb0fbfe36fc8ed66b264ad548603ec22b00a536b661b543bc46e732197820306b6365ede06bc9156bd0872fdfdefea19afe1e9100bde65adfae7457bf39472318fb64e18721ba5fc4591c6eb488b6772a2e3f5fa3f7377f5da1348e42f8b9b8d29d44379d7647d4ddcc06d4009fc41330b982afed88d324a48b34a261124c8c766d4bdd381b5737c323a23e21fe7c8c720d2ebe53ce08703e7dffbc112cdbdea9fc31bca1c91d834435b9bc07113edf621b177df9fef1fae325fa3d981c3a89fb5e0ddeff70f3ed82ec0a0e0f10119a26519a9045b8c312ac655c55caae9d92d4dfd35dab25a005ab8c9cc0a7e1ffe77490bc537772385d94607f0171883c903c0df16e99b865cbc1f6e3946e172ec9769212cd38787f0fb7ba13e590543ea113d4293bba9bfa6e9f9395aa5faa66ebce472f5706a8bcb76a64ef9a0035b0613349666bb2b1e0a956abc63a9cf7aab2aa192dbca4d29de6ffa91ca8ffa58f89faf916e9116d1ba291366346e583effae6b6d1ab0695501ee8d5fd2bcfc56a2a5209116e96665b7ba2cfd9fce62229ef94389966904bccf4dd4199e3af387d56e65331b553e26570b0ccd90d6988e78f3fe7b707ed233fa446f828750509200fb9e1716e51e976263d7a454b03788852bc477f9af9775240ca65fbcbb662790711c83404a674fb75d2a6afaa033974adf6b94c40df937319ee894c9d894a8bdbac7c3814ad4a5dc94df16d1758f0577de0839d7deed89ac5fb164b06617c8951b1be11e5497cc5947d2e5c76ac2db3534b6dc71a5380b193fb6ee54bd24aeb9643377969db5052b7d991647a4e3a96467b2c5655a029efc5216b674b56d500c295a1aba18a8f1c7a6008a7ec606da957fb40ad8c81f2dc0773669929a5b427e06cba17f6c36be132de5fa06d09ed24e3bd593fdb22748a79e303f83477ef42557bad3b3b321fb8fe44021a4671b2481917b92c7ef57deae2e656b5edd05ea62e3e6f91754b3975d09393c84e1577b91203fdcf4f1f6f6ede5f6f65901b66eca98d94b941507b2966e8b52d9541d36c824a6650a3d1d5b7eb4b0417ea1b6ff6cad84897cafecaa92f72d5c1c5ba19beda4a0ed1b15d3f94b427efa198841efa379d4734c05cf2ec44cb2b5dcc77daf7e816f37608ca505ead36d2e73ce52161a1dfb40fc34536bd138e491ec073210a2223c2f33ca20b19c04c2078cc58524479114896162c4c0b8a53b9c0c9a2083603cb09737f4f0e0db92032088a9c0b5a2414ec51e8cb458a490c0d978498f338e05c1494138a4991149260223127928065b63103c3a92aa4b1b3e278914798094c732a4590331660924661426994f288248c06525286852c8828724652304a178b98b0348c53b21d463af94f0f9a777dea7aa915a35b7f8ce135baef84dc962b2c6b3bed3ac16e79432be4b21a8b838333c641a5669b89c133a0b566d9f61a8fce9ecefe0534be3d82');
INSERT INTO public.manifest VALUES (4, '\x789c95566d8f9b3810fede5f81f8d23bdd86625e43bf55bba75e75d76a3fb4954eab0a197b08be00e6b0d96cbadaffde3110024976ef1a45213cf378663c6ff6e32bcbb2a968a0cdedb796ed3ac471ed2b03325955b4e688de1d085796dd76b579b0c28d9d0a2ad9ee53ca182835a0c47576b46d52d50013b414df81a71ba82afbdba0b305aac1e8b43dd78b5684ac3cef3371dfbae6fb5bff3b58af282b440dc87cc457040aa9744d2b83d8b5e410f73c14a8bdd25019f80632416bebfda72f6ffe1275f76011cffa259372bb936df5eb9535809143d64e10580feb288d828316d67446c5bb8f37d6efb77f5f5b491406f8b3ba962d58b7ad345b94edc44654219f4423308622dbeb01f7e3c05f27a11fc4dec868f6ba90b5b1717ddbffb57c871067da46b1c710df0b6304397f7efd78106c9acea8bcebdfac311cbd44d41c1e50e45e1db143883e7dfd70f3e19df58737067414779de8a3fffef6cb8acc05a71b08899fc461129375306331dad04c9442ef8d92c459e8aec406d19c960a46f0a97f7e1b37c25b710ffdeec2d875d69887d046c9539fef86b22dddf4b61fc7725b99229b15a535e118fd05ae65cb8abea81ce28f502bf4106edf317e8e56ca6e23ea63381f6d2e1452b34e8b813d37816ad061354a266b506b8c542345ad0d9e75a2d4a21e2cbca4d2ece6ffa9eca9ffa58fb2eadc45ff82b60351814ea912bc8f5d576f6bb9abad02dbc37afdf0da36b91a9b1430c3f5461d7b8f759c4e6f2693702fd8b36586b54455d79eb4b9fbd94dceda7c6ca6662cbc1437961abb811fb8d3c799eadbc6f1c14fa9a17b91bac30280536e70999b97b299488f76def81efe091377417f9af8f7c0b0e4d2e5b2a318ee3103a9c4c414c65f23adbbb23c91e3d46ace650ce71e4c6db810a92a65a564dbb4f87e2ada15b28443f31d17688c57751283999f335b937869b1a098c6971825ed6a563c8befa8d0e7c24d4b9b227d6ea96e69ad7234f6acdf0dbc242da56c329c262fb98d2db54d2f14d339e952192d58b42c5113efd8296be6921615827864c8b2efe20b9bee19cc283b595bc8dd12a88452d89e4b90534d5501a09f81d3f15c58a657e361bc5c207581e324cd3ab53f731127c5e4780f3e4dd33b17e56274a717ee07663e11cf0fc2285e2734631cf29f7d1fa7b8da8aa6e9c7cbdd30b13642ff8cfa15172d9e60875b4e53421f06dd767defd8f08055cb643f28dde92e8498c9d22c2c7661823b9b93a5a4fc0d2ba876fe51c3444e4810c0daf5323fcb7d3f8a388da2388630c78b414ea3041f1079d4cf9388871e4f8280bb619287b9efc56bcaf9e11280373191833a2af6680474ed93b5ef85aec7ddd8cb8090c07759c419d004dc1c7c4e08233ee51ecf232fe48c6604fc245cf3c43b9ebc2dfcdba1e6f9becce0d06cd8da186225bb96c1b1367159d34a53f6f35ac6becfa09cb1146aa9687a3ca3c2574faf7e008ac4e938');
INSERT INTO public.manifest VALUES (5, '\x789c95566d8f9b3810fede5f81f8d23bdd8662306ffd56ed9e7ad55dabfdd0563aad2a64cc107c01cc61b3d974b5ffbd63420824d9bd6b1485f0cce399f1bcd98faf2ccb66a285aeb0df5ab6eb10c7b5af0cc8655db32647f4ee40b8b2ecae6fcc83976ee4d450cb6e9732ce41a93d4a5c67cbba36552d70c12af11df2740d756d7fdbebec8069303a6dcff5c215212bcffb4cdcb7aef9fe36fceeadd78c97a201643ee22b02a554ba61b541ec46e6100d3c14a89dd2501bf80632c11aebfda72f6ffe124dff6011cffa259372b3955dfdeb95b5074387c40ea5d6431ca6213d68e16d6f54bcfb7863fd7efbf7b5958401c59fd5b5ecc0baeda4d9a2ec2636a20af9241c813114d94eef713fa27e9c043e8dbc91d1ee74291b63e3fa76f86bf90e21ceb48d728721be17c60872fefcfaf12058b7bd517937bc596338068968727840917b75c40e21faf4f5c3cd8777d61fde18d051dcf76288fefbdb2f2b32179c6e20207e12054944623a6371d6b24c5442ef8c92c459e8aec51ad182550a46f069787e1b379277e21e86dd0591ebc49887c046c9d390ef96f10d5b0fb61fc7725b99229b15a535e118fd05ae65c7cba1a81ce28f5027f43edcbe63fc1cad54fd5a34c7703edab95048cd7a2df6ecb90954830eab513259834663a45a291a6df0ac179516cddec24b2acd6efe9fca81fa5ffa18afcf5df42f683b1015e89429910fb1eb9b4d23b78d55627b58af1f5edb265763930266b859ab63eff13e67d39bc924dc0bfe6c99612d31d577276dee7e7693b3361f9ba91d0b2fc58da5c62ef5a93b7d9ca9be6d1c1ff92935702f52b7580070caa597b94525db89f46817adefe19f207117f4a7897f0f1c4b2e5d2e3b8ae11e33904a4c4c69fc35d2a6afaa13394eadf65cc671eec1d4860b91aa535e49be49cbefa7a26d292b3834df7181c678d5273198f939b3358997164b86697c8951b1bee1e5b3f896097d2e5c77ac2dd3e796ea8e35aa4063cffaddc24bd24aca36c369f292dbd8529bf442319d932e95d182c5aa0a35e53d3f65cd5cd2a246108f0c590d5d7c61d303831b65276b4bb95d02b5500adb7309e64c335502e867e0743c1796e9d578182f17485de23849b35eedce5cc44931393e804fd3f42e44b518dde985fb81994fc4f369104671c2329e43f1b3efe314571bd1b6c378b9db4facb5d03fa37e958b0e4fb0c32da7ad600883eefaa1776c78c0aae572189464ba0b2166b2340b8b5d9ae0cee6645161a8df34625dea6ae7fca3f653398a7c92d022e341e1c72c830c0f572f083c4e93c8859c854063378efda4487ce65146e300424a3c97928c4202878b00dec644014a4f8a29d03c8f784643e286b42078dd203e0b0cc20bea662c828c4631d23c464816f024e1804f126605f5203b9ebe1dfcdba3e6f9deccf0d07cbfbd31cc4af61d87637de2b2b693a6f4e7f58cbd9f41356329d452b3f4784e05af9e5efd00d129eace');
INSERT INTO public.newest VALUES ('ch07.memory_access', 'nvidia-h200-x1', 'cuda', '9f982216213cba43', 2, 1795255200, 'run1');
INSERT INTO public.newest VALUES ('ch07.transpose', 'nvidia-h200-x1', 'cuda', '9f982216213cba43', 3, 1795341600, 'run2');
INSERT INTO public."row" VALUES (1, 'strided', 0, 1, 1, 1795168800, 'baseline', 'naive', 'MEASURED', NULL, NULL, NULL, '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef', 0.0052134, 0.0051977598, 0.005229040199999999, 0.0052174, 0.0052017478, 0.005233052199999999, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 411916148386.8493, 102979037096.71233, NULL, NULL, NULL, 'memory', 0.09494763494072966, 1073741824, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public."row" VALUES (1, 'coalesced', 1, 2, 1, 1795168800, 'variant', NULL, 'FASTER', NULL, NULL, NULL, '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef', 0.0006523, 0.0006503431, 0.0006542568999999999, 0.0006563, 0.0006543311, 0.0006582688999999999, 7.992, 7.968024, 8.015975999999998, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 3292171773723.747, 823042943430.9368, NULL, NULL, NULL, 'memory', 0.7588532883642496, 1073741824, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public."row" VALUES (1, 'wide', 2, 3, 1, 1795168800, 'variant', NULL, 'FASTER', NULL, 'coalesced', NULL, '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef', 0.0006013, 0.0005994961000000001, 0.0006031039, 0.0006053, 0.0006034841, 0.0006071159, 8.671, 8.644986999999999, 8.697012999999998, 1.084, 1.080748, 1.0872519999999999, NULL, NULL, NULL, NULL, 3571401377016.4644, 892850344254.1161, NULL, NULL, 0.023, 'memory', 0.823216364543489, 1073741824, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public."row" VALUES (2, 'strided', 0, 1, 2, 1795255200, 'baseline', 'naive', 'MEASURED', NULL, NULL, NULL, '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef', 0.0052134, 0.0051977598, 0.005229040199999999, 0.0052174, 0.0052017478, 0.005233052199999999, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 411916148386.8493, 102979037096.71233, NULL, NULL, NULL, 'memory', 0.09494763494072966, 1073741824, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public."row" VALUES (2, 'coalesced', 1, 2, 2, 1795255200, 'variant', NULL, 'FASTER', NULL, NULL, NULL, '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef', 0.0006523, 0.0006503431, 0.0006542568999999999, 0.0006563, 0.0006543311, 0.0006582688999999999, 7.992, 7.968024, 8.015975999999998, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 3292171773723.747, 823042943430.9368, NULL, NULL, NULL, 'memory', 0.7588532883642496, 1073741824, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public."row" VALUES (2, 'wide', 2, 3, 2, 1795255200, 'variant', NULL, 'FASTER', NULL, 'coalesced', NULL, '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef', 0.0006013, 0.0005994961000000001, 0.0006031039, 0.0006053, 0.0006034841, 0.0006071159, 8.671, 8.644986999999999, 8.697012999999998, 1.084, 1.080748, 1.0872519999999999, NULL, NULL, NULL, NULL, 3571401377016.4644, 892850344254.1161, NULL, NULL, 0.023, 'memory', 0.823216364543489, 1073741824, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public."row" VALUES (3, 'strided', 0, 6, 3, 1795341600, 'baseline', 'naive', 'MEASURED', NULL, NULL, NULL, NULL, 0.0052134, 0.0051977598, 0.005229040199999999, 0.0052174, 0.0052017478, 0.005233052199999999, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 411916148386.8493, 102979037096.71233, NULL, NULL, NULL, 'memory', 0.09494763494072966, 1073741824, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public."row" VALUES (3, 'coalesced', 1, 4, 3, 1795341600, 'variant', NULL, 'FASTER', NULL, NULL, NULL, NULL, 0.0006523, 0.0006503431, 0.0006542568999999999, 0.0006563, 0.0006543311, 0.0006582688999999999, 7.992, 7.968024, 8.015975999999998, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 3292171773723.747, 823042943430.9368, NULL, NULL, NULL, 'memory', 0.7588532883642496, 1073741824, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public."row" VALUES (3, 'wide', 2, 5, 3, 1795341600, 'variant', NULL, 'FASTER', NULL, 'coalesced', NULL, NULL, 0.0006013, 0.0005994961000000001, 0.0006031039, 0.0006053, 0.0006034841, 0.0006071159, 8.671, 8.644986999999999, 8.697012999999998, 1.084, 1.080748, 1.0872519999999999, NULL, NULL, NULL, NULL, 3571401377016.4644, 892850344254.1161, NULL, NULL, 0.023, 'memory', 0.823216364543489, 1073741824, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.series VALUES (1, '3b9cde771b5c3d52', 'ch07.memory_access', 'strided', 'nvidia-h200-x1', 'cuda', '9f982216213cba43', '[["n",268435456.0]]', 'device', 'cold', 'fp32');
INSERT INTO public.series VALUES (2, 'd7dc5c45d30b9cc5', 'ch07.memory_access', 'coalesced', 'nvidia-h200-x1', 'cuda', '9f982216213cba43', '[["n",268435456.0]]', 'device', 'cold', 'fp32');
INSERT INTO public.series VALUES (3, 'd956f60c5f9b0cf2', 'ch07.memory_access', 'wide', 'nvidia-h200-x1', 'cuda', '9f982216213cba43', '[["n",268435456.0]]', 'device', 'cold', 'fp32');
INSERT INTO public.series VALUES (4, '0c1b1b2569d1cbe6', 'ch07.transpose', 'coalesced', 'nvidia-h200-x1', 'cuda', '9f982216213cba43', '[["n",268435456.0]]', 'device', 'cold', 'fp32');
INSERT INTO public.series VALUES (5, '0c8d737a7ac3e429', 'ch07.transpose', 'wide', 'nvidia-h200-x1', 'cuda', '9f982216213cba43', '[["n",268435456.0]]', 'device', 'cold', 'fp32');
INSERT INTO public.series VALUES (6, 'f3a4a5baf852b498', 'ch07.transpose', 'strided', 'nvidia-h200-x1', 'cuda', '9f982216213cba43', '[["n",268435456.0]]', 'device', 'cold', 'fp32');
INSERT INTO public.sketch VALUES (1, 'strided', 2, '\x58f50368a55a753fad3237055091753f000010042008310c411051146118721c82209224a228b32cc330d334e338f43c044114452449354d455155556559755d86619665a669b66dc771d775e779f77d08821886288a388e49925996699a799e8aa29aa6aaaabaaecab2dbb6ebbafbbe0bc31cc72ccb3ccf4cd35dd76ddb7ddf8de39ee7aeebbeefcef3dff7effbffff0000ffff');
INSERT INTO public.sketch VALUES (1, 'coalesced', 2, '\x322e6695e35f453fe6b8929e9b96453f000010042008310c411051146118721c82209224a228b32cc330d334e338f43c044114452449354d455155556559755d86619665a669b66dc771d775e779f77d08821886288a388e49925996699a799e8aa29aa6aaaabaaecab2dbb6ebbafbbe0bc31cc72ccb3ccf4cd35dd76ddb7ddf8de39ee7aeebbeefcef3dff7effbffff0000ffff');
INSERT INTO public.sketch VALUES (1, 'wide', 2, '\x090fe4ea11b4433f118a99bc82e6433f000010042008310c411051146118721c82209224a228b32cc330d334e338f43c044114452449354d455155556559755d86619665a669b66dc771d775e779f77d08821886288a388e49925996699a799e8aa29aa6aaaabaaecab2dbb6ebbafbbe0bc31cc72ccb3ccf4cd35dd76ddb7ddf8de39ee7aeebbeefcef3dff7effbffff0000ffff');
INSERT INTO public.sketch VALUES (2, 'strided', 2, '\x58f50368a55a753fad3237055091753f000010042008310c411051146118721c82209224a228b32cc330d334e338f43c044114452449354d455155556559755d86619665a669b66dc771d775e779f77d08821886288a388e49925996699a799e8aa29aa6aaaabaaecab2dbb6ebbafbbe0bc31cc72ccb3ccf4cd35dd76ddb7ddf8de39ee7aeebbeefcef3dff7effbffff0000ffff');
INSERT INTO public.sketch VALUES (2, 'coalesced', 2, '\x322e6695e35f453fe6b8929e9b96453f000010042008310c411051146118721c82209224a228b32cc330d334e338f43c044114452449354d455155556559755d86619665a669b66dc771d775e779f77d08821886288a388e49925996699a799e8aa29aa6aaaabaaecab2dbb6ebbafbbe0bc31cc72ccb3ccf4cd35dd76ddb7ddf8de39ee7aeebbeefcef3dff7effbffff0000ffff');
INSERT INTO public.sketch VALUES (2, 'wide', 2, '\x090fe4ea11b4433f118a99bc82e6433f000010042008310c411051146118721c82209224a228b32cc330d334e338f43c044114452449354d455155556559755d86619665a669b66dc771d775e779f77d08821886288a388e49925996699a799e8aa29aa6aaaabaaecab2dbb6ebbafbbe0bc31cc72ccb3ccf4cd35dd76ddb7ddf8de39ee7aeebbeefcef3dff7effbffff0000ffff');
INSERT INTO public.sketch VALUES (3, 'strided', 2, '\x58f50368a55a753fad3237055091753f000010042008310c411051146118721c82209224a228b32cc330d334e338f43c044114452449354d455155556559755d86619665a669b66dc771d775e779f77d08821886288a388e49925996699a799e8aa29aa6aaaabaaecab2dbb6ebbafbbe0bc31cc72ccb3ccf4cd35dd76ddb7ddf8de39ee7aeebbeefcef3dff7effbffff0000ffff');
INSERT INTO public.sketch VALUES (3, 'coalesced', 2, '\x322e6695e35f453fe6b8929e9b96453f000010042008310c411051146118721c82209224a228b32cc330d334e338f43c044114452449354d455155556559755d86619665a669b66dc771d775e779f77d08821886288a388e49925996699a799e8aa29aa6aaaabaaecab2dbb6ebbafbbe0bc31cc72ccb3ccf4cd35dd76ddb7ddf8de39ee7aeebbeefcef3dff7effbffff0000ffff');
INSERT INTO public.sketch VALUES (3, 'wide', 2, '\x090fe4ea11b4433f118a99bc82e6433f000010042008310c411051146118721c82209224a228b32cc330d334e338f43c044114452449354d455155556559755d86619665a669b66dc771d775e779f77d08821886288a388e49925996699a799e8aa29aa6aaaabaaecab2dbb6ebbafbbe0bc31cc72ccb3ccf4cd35dd76ddb7ddf8de39ee7aeebbeefcef3dff7effbffff0000ffff');
INSERT INTO public.software VALUES ('e94ec1dc5e46a7296d8c7454e5a77526bc097398dfc21a2b9dd21593fb1922d8', '0.1.0', 'CPython 3.11.7', '{"aiperf-ch07":"0.1.0","aiperf-core":"0.1.0","torch":"2.13.0","triton":"3.9.0"}');
INSERT INTO public.target VALUES (1, 1, 'ch07.memory_access', 'cuda', 'nvidia-h200-x1', '[["n",268435456.0]]', '9f982216213cba43', 'speed', 'device', 'cold', 'fp32', 'cuda', 1073741824, 1073741824, 536870912, 0, 0, 1, 1, 0.01, 'quick', 1, true, NULL, 1795168800);
INSERT INTO public.target VALUES (2, 2, 'ch07.memory_access', 'cuda', 'nvidia-h200-x1', '[["n",268435456.0]]', '9f982216213cba43', 'speed', 'device', 'cold', 'fp32', 'cuda', 1073741824, 1073741824, 536870912, 0, 0, 1, 1, 0.01, 'quick', 1, true, NULL, 1795255200);
INSERT INTO public.target VALUES (3, 3, 'ch07.transpose', 'cuda', 'nvidia-h200-x1', '[["n",268435456.0]]', '9f982216213cba43', 'speed', 'device', 'cold', 'fp32', 'cuda', 1073741824, 1073741824, 536870912, 0, 0, 1, 1, 0.01, 'quick', 1, true, NULL, 1795341600);
SELECT pg_catalog.setval('public.bundle_number_seq', 5, true);
SELECT pg_catalog.setval('public.load_id_seq', 1, true);
SELECT pg_catalog.setval('public.series_id_seq', 6, true);
SELECT pg_catalog.setval('public.target_id_seq', 3, true);
ALTER TABLE ONLY public.aiperf_version
    ADD CONSTRAINT aiperf_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.bundle
    ADD CONSTRAINT bundle_id_key UNIQUE (id);
ALTER TABLE ONLY public.bundle
    ADD CONSTRAINT bundle_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.ceiling
    ADD CONSTRAINT ceiling_pkey PRIMARY KEY (bundle, device, figure);
ALTER TABLE ONLY public.document
    ADD CONSTRAINT document_pkey PRIMARY KEY (target);
ALTER TABLE ONLY public.finding
    ADD CONSTRAINT finding_pkey PRIMARY KEY (target, "row", "position");
ALTER TABLE ONLY public.label
    ADD CONSTRAINT label_pkey PRIMARY KEY (bundle, name);
ALTER TABLE ONLY public.load
    ADD CONSTRAINT load_of_bundle UNIQUE (bundle, name);
ALTER TABLE ONLY public.load
    ADD CONSTRAINT load_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.load_point
    ADD CONSTRAINT load_point_pkey PRIMARY KEY (load, name);
ALTER TABLE ONLY public.machine
    ADD CONSTRAINT machine_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.manifest
    ADD CONSTRAINT manifest_pkey PRIMARY KEY (bundle);
ALTER TABLE ONLY public.newest
    ADD CONSTRAINT newest_pkey PRIMARY KEY (name, hardware, device, params_hash);
ALTER TABLE ONLY public."row"
    ADD CONSTRAINT row_pkey PRIMARY KEY (target, name);
ALTER TABLE ONLY public.series
    ADD CONSTRAINT series_digest_key UNIQUE (digest);
ALTER TABLE ONLY public.series
    ADD CONSTRAINT series_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sketch
    ADD CONSTRAINT sketch_pkey PRIMARY KEY (target, "row");
ALTER TABLE ONLY public.software
    ADD CONSTRAINT software_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.target
    ADD CONSTRAINT target_of_bundle UNIQUE (bundle, name);
ALTER TABLE ONLY public.target
    ADD CONSTRAINT target_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.tombstone
    ADD CONSTRAINT tombstone_pkey PRIMARY KEY (bundle);
CREATE INDEX bundle_by_time ON public.bundle USING btree (created_s);
CREATE INDEX label_by_value ON public.label USING btree (name, value);
CREATE INDEX load_point_by_bundle ON public.load_point USING btree (bundle);
CREATE INDEX row_by_series ON public."row" USING btree (series, created_s, bundle, verdict, time_s, time_s_low, time_s_high, speedup, speedup_low, speedup_high, memory_gain, peak_bytes, joules);
CREATE INDEX series_by_target ON public.series USING btree (target, implementation, hardware, device, params_hash);
ALTER TABLE ONLY public.bundle
    ADD CONSTRAINT bundle_machine_fkey FOREIGN KEY (machine) REFERENCES public.machine(id);
ALTER TABLE ONLY public.bundle
    ADD CONSTRAINT bundle_software_fkey FOREIGN KEY (software) REFERENCES public.software(id);
ALTER TABLE ONLY public.ceiling
    ADD CONSTRAINT ceiling_bundle_fkey FOREIGN KEY (bundle) REFERENCES public.bundle(number);
ALTER TABLE ONLY public.document
    ADD CONSTRAINT document_target_fkey FOREIGN KEY (target) REFERENCES public.target(id);
ALTER TABLE ONLY public.finding
    ADD CONSTRAINT finding_target_fkey FOREIGN KEY (target) REFERENCES public.target(id);
ALTER TABLE ONLY public.label
    ADD CONSTRAINT label_bundle_fkey FOREIGN KEY (bundle) REFERENCES public.bundle(number);
ALTER TABLE ONLY public.load
    ADD CONSTRAINT load_bundle_fkey FOREIGN KEY (bundle) REFERENCES public.bundle(number);
ALTER TABLE ONLY public.load_point
    ADD CONSTRAINT load_point_bundle_fkey FOREIGN KEY (bundle) REFERENCES public.bundle(number);
ALTER TABLE ONLY public.load_point
    ADD CONSTRAINT load_point_load_fkey FOREIGN KEY (load) REFERENCES public.load(id);
ALTER TABLE ONLY public.manifest
    ADD CONSTRAINT manifest_bundle_fkey FOREIGN KEY (bundle) REFERENCES public.bundle(number);
ALTER TABLE ONLY public.newest
    ADD CONSTRAINT newest_target_fkey FOREIGN KEY (target) REFERENCES public.target(id);
ALTER TABLE ONLY public."row"
    ADD CONSTRAINT row_bundle_fkey FOREIGN KEY (bundle) REFERENCES public.bundle(number);
ALTER TABLE ONLY public."row"
    ADD CONSTRAINT row_series_fkey FOREIGN KEY (series) REFERENCES public.series(id);
ALTER TABLE ONLY public."row"
    ADD CONSTRAINT row_target_fkey FOREIGN KEY (target) REFERENCES public.target(id);
ALTER TABLE ONLY public.sketch
    ADD CONSTRAINT sketch_target_fkey FOREIGN KEY (target) REFERENCES public.target(id);
ALTER TABLE ONLY public.target
    ADD CONSTRAINT target_bundle_fkey FOREIGN KEY (bundle) REFERENCES public.bundle(number);
ALTER TABLE ONLY public.tombstone
    ADD CONSTRAINT tombstone_bundle_fkey FOREIGN KEY (bundle) REFERENCES public.bundle(number);
