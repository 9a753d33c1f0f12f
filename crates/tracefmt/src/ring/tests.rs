//! Pages made by hand.

use super::*;

/// A page of `long`s of 8 bytes and 128 bytes altogether.
fn page(endian: Endian, ts: u64, commit_flags: u64, words: &[u32]) -> Vec<u8> {
    let put = |value: u64, size: usize| -> Vec<u8> {
        let bytes = value.to_le_bytes();
        let mut bytes = bytes[..size].to_vec();
        if endian == Endian::Big {
            bytes.reverse();
        }
        bytes
    };
    let mut out = put(ts, 8);
    out.extend(put((words.len() as u64 * 4) | commit_flags, 8));
    for &word in words {
        out.extend(put(u64::from(word), 4));
    }
    out.resize(128, 0);
    out
}

fn header(endian: Endian, kind: u32, delta: u32) -> u32 {
    match endian {
        Endian::Little => delta << 5 | kind,
        Endian::Big => kind << 27 | delta,
    }
}

fn layout() -> PageLayout {
    PageLayout::new(8, 128).unwrap()
}

#[test]
fn all_kinds_of_records() {
    for endian in [Endian::Little, Endian::Big] {
        let h = |kind, delta| header(endian, kind, delta);
        let words = [
            h(1, 10),
            0xaaaa_aaaa,
            h(30, 5),
            2, // 2 << 27 more
            h(2, 1),
            1,
            2,
            h(29, 3),
            8, // discarded, one word of data
            0,
            h(0, 4),
            10, // 6 bytes of data, taken as 8
            7,
            8,
            h(31, 9),
            4, // absolute: 4 << 27 | 9
            h(1, 1),
            0,
            h(29, 0), // the end, whatever follows
            h(1, 1),
            0,
        ];
        let bytes = page(endian, 1000, 0, &words);
        let page = layout().page(&bytes, endian).unwrap();
        assert_eq!((page.timestamp(), page.lost()), (1000, None));
        let records: Vec<_> = page.records().map(Result::unwrap).collect();
        let brief: Vec<_> = records.iter().map(|r| (r.ts, r.data.len())).collect();
        let third = 1010 + (2 << 27) + 5 + 1;
        assert_eq!(
            brief,
            [
                (1010, 4),
                (third, 8),
                (third + 3 + 4, 8),
                ((4 << 27) + 10, 4)
            ]
        );
        assert_eq!(endian.unsigned(&records[0].data[..4]), Some(0xaaaa_aaaa));
    }
}

#[test]
fn losses() {
    let endian = Endian::Little;
    let mut bytes = page(endian, 0, MISSED_EVENTS, &[header(endian, 1, 0), 0]);
    let lost = |bytes: &[u8]| layout().page(bytes, endian).unwrap().lost();
    assert_eq!(lost(&bytes), Some(Lost::Unknown));
    bytes[11] |= 0x40; // bit 30: stored
    bytes[24] = 17;
    assert_eq!(lost(&bytes), Some(Lost::Count(17)));
    // No room for the number: still a loss.
    assert_eq!(lost(&bytes[..24]), Some(Lost::Unknown));
}

#[test]
fn absolute_stamps_keep_the_top_bits() {
    let high = 3 << STAMP_BITS;
    assert_eq!(absolute(7, 5), 7);
    assert_eq!(absolute(7, high | 5), high | 7);
    // Below the time before it: the 59 bits went round.
    assert_eq!(absolute(7, high | 9), (4 << STAMP_BITS) | 7);
}

#[test]
fn broken_pages() {
    let endian = Endian::Little;
    let layout = layout();
    assert_eq!(
        layout.page(&[0; 15], endian).unwrap_err(),
        PageError::Header { have: 15, need: 16 }
    );
    let mut bytes = page(endian, 0, 0, &[header(endian, 5, 1), 0]);
    let last = layout.page(&bytes, endian).unwrap().records().last();
    assert_eq!(last, Some(Err(PageError::Record { offset: 16 })));
    for word in [[0, 0, 0, 0], [3, 0, 0, 0], [0xff; 4]] {
        // A length in a word of its own that is too small or too large.
        bytes[16..20].copy_from_slice(&header(endian, 0, 1).to_le_bytes());
        bytes[20..24].copy_from_slice(&word);
        let last = layout.page(&bytes, endian).unwrap().records().last();
        assert_eq!(
            last,
            Some(Err(PageError::Record { offset: 16 })),
            "{word:?}"
        );
    }
    // A cut page gives the records that are there.
    bytes = page(
        endian,
        0,
        0,
        &[header(endian, 1, 1), 0, header(endian, 1, 1), 0],
    );
    assert!(layout.page(&bytes[..24], endian).is_err());
    for (len, records) in [(31, 1), (24, 1), (20, 0), (16, 0)] {
        let mut cursor = PageCursor::cut(&layout, &bytes[..len], endian).unwrap();
        let mut next = || cursor.next_place(&bytes[..len]);
        for _ in 0..records {
            assert!(matches!(next(), Ok(Some(_))), "{len}");
        }
        assert!(next().is_err(), "{len}");
        assert_eq!(next(), Ok(None), "{len}");
    }
    bytes[8..16].copy_from_slice(&113u64.to_le_bytes());
    assert!(PageCursor::cut(&layout, &bytes, endian).is_err());
    assert_eq!(
        layout.page(&bytes, endian).unwrap_err(),
        PageError::Commit {
            used: 113,
            have: 112
        }
    );
}

#[test]
fn layouts() {
    let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\n\
                \tfield: local_t commit;\toffset:8;\tsize:4;\n\
                \tfield: char data;\toffset:12;\tsize:4084;\n";
    let layout = PageLayout::parse(text).unwrap();
    assert_eq!((layout.page_size(), layout.long_size()), (4096, 4));
    assert_eq!(layout, PageLayout::new(4, 4096).unwrap());
    for (from, to, error) in [
        ("commit", "x", LayoutError::Missing("commit")),
        ("size:4084", "size:4294967295", LayoutError::Sizes),
        ("offset:12", "offset:11", LayoutError::Sizes),
        ("size:4;", "size:5;", LayoutError::Sizes),
    ] {
        assert_eq!(
            PageLayout::parse(&text.replace(from, to)),
            Err(error),
            "{to}"
        );
    }
    assert_eq!(PageLayout::new(8, 16), Err(LayoutError::Sizes));
}

#[test]
fn header_event() {
    let text = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\
                \tarray       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n";
    assert_eq!(check_header_event(text), Ok(()));
    let error = check_header_event(&text.replace("27 bits", "12 bits"));
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("time_delta : 27 bits")
    );
}
