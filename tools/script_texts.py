"""Text in many scripts for tokenizer checks and test vocabularies: article 1 of the Universal Declaration of Human
Rights, and lines as they stand on receipts."""

TEXTS = {
    "Latin": "All human beings are born free and equal in dignity and rights. Alle Menschen sind frei und gleich an Würde "
             "und Rechten geboren. Tous les êtres humains naissent libres et égaux en dignité et en droits. Tất cả mọi người "
             "sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền. Bütün insanlar hür, haysiyet ve haklar bakımından "
             "eşit doğarlar; İSTANBUL ıssız. Všichni lidé rodí se svobodní a sobě rovní. Mindannyian szabadon születünk.",
    "Greek": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα. ΣΎΝΟΛΟ ΑΠΌΔΕΙΞΗΣ ΦΠΑ 24%",
    "Cyrillic": "Все люди рождаются свободными и равными в своём достоинстве и правах. Всі люди народжуються вільними. "
                "ИТОГО К ОПЛАТЕ: 1 250,00 ₽ Йод",
    "Armenian": "Բոլոր մարդիկ ծնվում են ազատ ու հավասար իրենց արժանապատվությամբ ու իրավունքներով։",
    "Georgian": "ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით. ᲯᲐᲛᲘ",
    "Hebrew": "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. סַךְ הַכֹּל ₪ 42.50",
    "Arabic": "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق. المجموع: ١٢٫٥٠ ر.س، ﷼ ﻻ",
    "Devanagari": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। कुल ₹ १२०",
    "Bengali": "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে। মোট ৳ ৫০০",
    "Tamil": "மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்; அவர்கள் மதிப்பிலும், உரிமைகளிலும் சமமானவர்கள்.",
    "Thai": "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ รวมทั้งสิ้น ๑๒๐.๐๐ บาท น้ำ",
    "Han": "人人生而自由，在尊严和权利上一律平等。人人生而自由，在尊嚴和權利上一律平等。合計：￥１，２００（税込）𠮷野家 兀嗀",
    "Kana": "すべての人間は、生れながらにして自由であり、かつ、尊厳と権利とについて平等である。レシート ﾚｼｰﾄ ガ ㍿ ㌔",
    "Hangul": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 합계 ₩12,000 각 ㈜",
    "Ethiopic": "የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው።",
    "Khmer": "មនុស្សទាំងអស់កើតមកមានសេរីភាព និងសមភាពក្នុងផ្នែកសេចក្ដីថ្លៃថ្នូរនិងសិទ្ធិ។",
}
RECEIPT_LINES = [
    "TOTAL AMOUNT: RM 12.90", "Invoice No. INV-2019/00123", "GST @6% incl. (SR)", "Date: 25/12/2018 8:13:39 PM",
    "TAN CHAY YEE SDN BHD", "No. 53 55,57 & 59, Jalan Sagu 18,", "81100 Johor Bahru, Johor.", "Tel: +60-7-362 4111",
    "*** THANK YOU ***", "CHANGE $0.00", "Qty x Price = €3,50", "E-mail: info@example.com", "Cashier's #1_A",
    "½ price ™ ® ﬁsh №5 x² Ⅻ", "na\u00efve cafe\u0301 Z\u0351\u036b\u0343ALGO \u1e9b\u0323 \u212b \u0149",
    "zero\u200bwidth\u00a0and\u2009thin\u3000wide\ttab", "a\u0000b\ufffdc\u007fd\u0085e\ufeff",
]


def words():
    """The texts' words, and each text as one word."""
    found = []
    for text in [*TEXTS.values(), *RECEIPT_LINES]:
        found += [*text.split(" "), text]
    return found
